// `slipway projects use`: selects the default project for other commands.
import { command } from "./command.ts";
import { chosen, connect, platformOptions, projectsOf } from "./connection.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { readSignIns, renewSignIn } from "./sign-ins.ts";

/** Selects a project. */
export const useProject = command({
  name: "projects use",
  about: "Select the project that commands use by default. The choice is saved with your sign-in.",
  operands: [{ name: "project", about: "The project's id or name." }],
  options: platformOptions,
  async run(given, machine) {
    const connection = connect(given, machine);
    const { client, signIn } = connection;
    if (signIn === null)
      throw new Refused(
        "SLIPWAY_TOKEN is set, so there is no sign-in to save the choice with. Set SLIPWAY_PROJECT instead.",
      );
    const project = chosen(await projectsOf(connection), given.operand("project"));
    // The access token may just have been renewed.
    const latest = readSignIns(machine).platforms[client.url] ?? signIn;
    renewSignIn(machine, client.url, { ...latest, project: project.id });
    machine.tell(`Commands now use the project ${plain(project.name)} (${project.id}).`);
  },
});
