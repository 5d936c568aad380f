// `slipway projects …`: lists the caller's projects, and selects the default project for other commands.
import { command } from "./command.ts";
import { chosen, connect, platformOptions, projectsOf } from "./connection.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { listCommand } from "./resource.ts";
import { readSignIns, renewSignIn } from "./sign-ins.ts";

/** By verb. */
export const projects = {
  list: listCommand({
    name: "projects list",
    about: "List the projects that you are a member of. A star marks the project that commands use by default.",
    examples: ["projects"],
    of: "platform",
    items: ({ connection }) => projectsOf(connection),
    columns: {
      "": ({ id }, { connection }) => (id === connection.signIn?.project ? "*" : ""),
      PROJECT: ({ id }) => id,
      NAME: ({ name }) => name,
    },
    none: "You are not a member of any project yet. Ask a project owner to invite you.",
  }),

  use: command({
    name: "projects use",
    about: "Select the project that commands use by default. The choice is saved with your sign-in.",
    examples: ["projects use shop", "projects use p-4f1c09aa"],
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
      output(given, machine, project, () => {
        machine.tell(`Commands now use the project ${plain(project.name)} (${project.id}).`);
      });
    },
  }),
};
