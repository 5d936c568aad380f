// `slipway projects use`: chooses the project that commands are about.
import { command } from "./command.ts";
import { chosen, connect, platformOptions, projectsOf } from "./connection.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { readSignIns, renewSignIn } from "./sign-ins.ts";

/** Chooses a project. */
export const useProject = command({
  name: "projects use",
  about: "Chooses the project that commands are about when none is named. It is kept with your sign-in.",
  operands: [{ name: "project", about: "The project's id or name." }],
  options: platformOptions,
  async run(given, machine) {
    const connection = connect(given, machine);
    const { client, signIn } = connection;
    if (signIn === null)
      throw new Refused("With SLIPWAY_TOKEN set there is no sign-in to keep it with; set SLIPWAY_PROJECT.");
    const project = chosen(await projectsOf(connection), given.operand("project"));
    // The access token may have been renewed just now.
    const latest = readSignIns(machine).platforms[client.url] ?? signIn;
    renewSignIn(machine, client.url, { ...latest, project: project.id });
    machine.tell(`Commands are about the project ${plain(project.name)} (${project.id}) now.`);
  },
});
