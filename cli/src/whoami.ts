// `slipway whoami`: shows the caller, the platform and the selected project.
import { command } from "./command.ts";
import { connect, platformOptions, projectsOf, type Project } from "./connection.ts";
import { output } from "./output.ts";
import { personOf } from "./person.ts";
import { plain } from "./plain-text.ts";
import { isOfServiceAccount } from "./sign-ins.ts";
import { tokenProject } from "./claims.ts";

/** Shows the caller. Fails when the platform rejects the token. */
export const whoami = command({
  name: "whoami",
  about:
    "Show who commands act as, on which platform, and in which project. Fails if the session has ended.",
  examples: ["whoami", "whoami --json"],
  options: platformOptions,
  async run(given, machine) {
    const connection = connect(given, machine);
    const { client, signIn, token } = connection;
    const person = signIn === null || isOfServiceAccount(signIn) ? null : await personOf(client);
    const projects = await projectsOf(connection);
    const chosenId =
      (machine.environment["SLIPWAY_PROJECT"] ?? "") ||
      (signIn?.project ?? tokenProject(token ?? ""));
    const project = projects.find(({ id, name }) => id === chosenId || name === chosenId) ?? null;
    const who =
      person === null
        ? (signIn?.email ?? "the token in SLIPWAY_TOKEN")
        : `${person.email} (${person.name})`;
    output(given, machine, { url: client.url, person, project }, () => {
      machine.print(plain(`You are ${who} at ${client.url}.`));
      machine.print(aboutProject(project));
    });
  },
});

function aboutProject(project: Project | null): string {
  if (project === null) return "No project is selected. Use --project.";
  return `Commands use the project ${plain(project.name)} (${project.id}).`;
}
