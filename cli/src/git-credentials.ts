// `slipway git credentials …`: what private repositories are fetched with.
import { readFile } from "node:fs/promises";
import { answerOf } from "@slipway/client/client.ts";
import { errorMessage } from "./error-message.ts";
import { askSecret, readInput } from "./prompt.ts";
import { misuse } from "./refused.ts";
import { changeCommand, defined, listCommand, type At } from "./resource.ts";
import { moment } from "./table.ts";

const route = "/v2/projects/{project_id}/git-credentials" as const;
const hostOperand = { name: "host", about: "The git host, such as github.com." } as const;

/** The commands of git credentials, by verb. */
export const gitCredentials = {
  list: listCommand({
    name: "git credentials list",
    about: "List the git hosts that the project has credentials for. The secrets are never shown.",
    examples: ["git credentials"],
    of: "project",
    items: ({ api, path }) => answerOf(api.GET(route, { params: { path } })),
    columns: {
      HOST: ({ host }) => host,
      KIND: ({ kind }) => kind,
      USER: ({ username }) => username,
      CHANGED: ({ updatedAt }) => moment(updatedAt),
    },
    none: "The project has no git credentials. To set one: slipway git credentials set <host>",
  }),

  set: changeCommand({
    name: "git credentials set",
    about: `Set the credential that repositories on a host are fetched with: a token, or with --ssh-key a private key. A token
is asked for on a terminal, and read from standard input elsewhere.`,
    examples: [
      "git credentials set github.com",
      "git credentials set git.example.org --ssh-key deploy_key",
    ],
    of: "project",
    operands: [hostOperand],
    options: {
      "ssh-key": { value: "<file>", about: "A file with a private key." },
      username: { value: "<name>", about: "Default: x-access-token for a token, git for a key." },
    },
    async change(at) {
      const { api, path, given } = at;
      const file = given.text("ssh-key");
      const secret = file === undefined ? await readToken(at) : await keyText(file);
      if (secret === "")
        throw misuse("The token is missing: type it, or send it to standard input.");
      const kind = file === undefined ? ("token" as const) : ("ssh_key" as const);
      const body = { kind, secret, ...defined({ username: given.text("username") }) };
      return await answerOf(
        api.PUT(`${route}/{host}`, {
          params: { path: { ...path, host: given.operand("host") } },
          body,
        }),
      );
    },
    said: ({ message }) => message,
  }),

  remove: changeCommand({
    name: "git credentials remove",
    about: "Remove the credential for a host.",
    examples: ["git credentials remove github.com --yes"],
    of: "project",
    hints: { 404: () => "To list them: slipway git credentials" },
    operands: [hostOperand],
    question: ({ given }) => `Remove the credential for ${given.operand("host")}?`,
    change: ({ api, path, given }: At) =>
      answerOf(
        api.DELETE(`${route}/{host}`, {
          params: { path: { ...path, host: given.operand("host") } },
        }),
      ),
    said: ({ message }) => message,
  }),
};

/** The token, asked for on a terminal and read from standard input elsewhere; "": there is none. */
async function readToken({ given, machine }: At): Promise<string> {
  if (machine.isInteractive) return await askSecret(`Token for ${given.operand("host")}: `);
  const input = await readInput();
  return input.toString().trim();
}

async function keyText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw misuse(`${file} cannot be read: ${errorMessage(error)}.`, error);
  }
}
