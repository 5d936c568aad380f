// `slipway projects …`: lists, makes, renames and deletes projects, and selects the default project
// for other commands.
import { answerOf } from "@slipway/client/client.ts";
import { command } from "./command.ts";
import { chosen, connect, platformOptions, projectsOf, type Connection } from "./connection.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { changeCommand, listCommand, type At } from "./resource.ts";
import { readSignIns, renewSignIn } from "./sign-ins.ts";

const projectOperand = { name: "project", about: "The project's id or name." } as const;
const route = "/v2/projects/{project_id}";

const paramsOf = async ({ connection, given }: At) => ({
  path: { project_id: chosen(await projectsOf(connection), given.operand("project")).id },
});

/** Saves the default project with the sign-in; null: none. */
function select(
  machine: Machine,
  { client: { url }, signIn }: Connection,
  project: string | null,
): void {
  // The access token may just have been renewed.
  const latest = readSignIns(machine).platforms[url] ?? signIn;
  if (latest !== null) renewSignIn(machine, url, { ...latest, project });
}

/** The commands of projects, by verb. */
export const projects = {
  list: listCommand({
    name: "projects list",
    about:
      "List the projects that you are a member of. A star marks the project that commands use by default.",
    examples: ["projects"],
    of: "platform",
    items: ({ connection }) => projectsOf(connection),
    columns: {
      "": ({ id }, { connection }) => (id === connection.signIn?.project ? "*" : ""),
      PROJECT: ({ id }) => id,
      NAME: ({ name }) => name,
    },
    none: "You are not a member of any project yet. Make one: slipway projects create <name>. Or ask a project owner to invite you.",
  }),

  create: changeCommand({
    name: "projects create",
    about: "Make a project, of which you become the owner.",
    examples: ["projects create shop"],
    of: "platform",
    operands: [{ name: "name", about: "What people are shown." }],
    change: ({ api, given }) =>
      answerOf(api.POST("/v2/projects", { body: { name: given.operand("name") } })),
    said: ({ id, name }) => [
      `Created the project ${name} (${id}).`,
      `To use it by default: slipway projects use ${id}`,
    ],
  }),

  rename: changeCommand({
    name: "projects rename",
    about: "Rename a project. No address changes with it.",
    examples: ["projects rename shop store"],
    of: "platform",
    operands: [projectOperand, { name: "name", about: "What people are shown from now on." }],
    async change(at) {
      const params = await paramsOf(at);
      return await answerOf(
        at.api.PATCH(route, { params, body: { name: at.given.operand("name") } }),
      );
    },
    said: ({ id, name }) => `The project ${id} is called ${name} now.`,
  }),

  delete: changeCommand({
    name: "projects delete",
    about: `Delete a project with its apps, members, invitations, tokens, secrets and git credentials. Its audit log,
usage and statements are kept. This cannot be undone.`,
    examples: ["projects delete shop", "projects delete shop --yes"],
    of: "platform",
    operands: [projectOperand],
    question: ({ given }) =>
      `Delete the project ${given.operand("project")} with its apps, members, tokens and secrets?`,
    async change(at) {
      const params = await paramsOf(at);
      const answer = await answerOf(at.api.DELETE(route, { params }));
      if (at.connection.signIn?.project === params.path.project_id)
        select(at.machine, at.connection, null);
      return answer;
    },
    said: ({ message }) => message,
  }),

  use: command({
    name: "projects use",
    about:
      "Select the project that commands use by default. The choice is saved with your sign-in.",
    examples: ["projects use shop", "projects use p-4f1c09aa"],
    operands: [projectOperand],
    options: platformOptions,
    async run(given, machine) {
      const connection = connect(given, machine);
      if (connection.signIn === null)
        throw new Refused(
          "SLIPWAY_TOKEN is set, so there is no sign-in to save the choice with. Set SLIPWAY_PROJECT instead.",
        );
      const project = chosen(await projectsOf(connection), given.operand("project"));
      select(machine, connection, project.id);
      output(given, machine, project, () => {
        machine.tell(`Commands now use the project ${plain(project.name)} (${project.id}).`);
      });
    },
  }),
};
