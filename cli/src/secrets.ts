// `slipway secrets …`: the secrets of a project or an app. The API replaces all of them at once, so
// a change reads them, merges and writes. Values are never printed but with `list --json`.
import { readFile } from "node:fs/promises";
import { answerOf } from "@slipway/client/client.ts";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { readEnvFile } from "./env-file.ts";
import { errorMessage } from "./error-message.ts";
import { askSecret, readInput } from "./prompt.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import { appOption, changeCommand, listCommand, type At } from "./resource.ts";

const projectRoute = "/v2/projects/{project_id}/secrets" as const;
const appRoute = "/v2/projects/{project_id}/apps/{app_id}/secrets" as const;
const restartOption = {
  restart: {
    value: null,
    about: "Restart the apps that use them now; else replicas see them when they start.",
  },
} as const;

/** The commands of secrets, by verb. */
export const secrets = {
  list: listCommand({
    name: "secrets list",
    about:
      "List the names of the secrets of the project, or of an app. With --json: names and values.",
    examples: ["secrets", "secrets list --app hello"],
    of: "project",
    options: appOption,
    async items(at) {
      const entries = Object.entries(await read(at)).toSorted(([one], [other]) =>
        one < other ? -1 : 1,
      );
      return entries.map(([name, value]) => ({ name, value }));
    },
    columns: { NAME: ({ name }) => name },
    none: "There are no secrets. To set one: slipway secrets set NAME",
  }),

  set: changeCommand({
    name: "secrets set",
    about: `Set secrets of the project, or of an app, whose own win over the project's; others stay as they are. A name alone
asks for the value on a terminal, and reads it from standard input elsewhere, so that it is not in the history of the shell.`,
    examples: [
      "secrets set API_KEY",
      "secrets set MODE=fast REGION=eu --app hello --restart",
      "secrets set --from-env .env",
    ],
    of: "project",
    operands: [
      { name: "NAME=value", about: "A secret, or its name alone.", isOptional: true, isMany: true },
    ],
    options: {
      "from-env": {
        value: "<file>",
        about:
          'All that a file of lines NAME=value has, as Docker Compose and python-dotenv read it; "-" for standard input.',
      },
      ...restartOption,
      ...appOption,
    },
    async change(at) {
      const added = { ...(await fileSecrets(at)), ...(await typedSecrets(at)) };
      const names = Object.keys(added);
      if (names.length === 0)
        throw misuse("There is nothing to set. See slipway secrets set --help.");
      const { message } = await write(at, { ...(await read(at)), ...added });
      return { names, message };
    },
    said: ({ names, message }) => `${names.join(", ")}: ${message}`,
  }),

  remove: changeCommand({
    name: "secrets remove",
    about: "Remove secrets of the project, or of an app; others stay as they are.",
    examples: ["secrets remove API_KEY --yes", "secrets remove MODE REGION --app hello"],
    of: "project",
    operands: [{ name: "NAME", about: "The name of a secret.", isMany: true }],
    options: { ...restartOption, ...appOption },
    async question(at) {
      const names = at.given.operands("NAME");
      const all = Object.keys(await read(at));
      for (const name of names) if (!all.includes(name)) throw noSecret(name, all);
      return `Remove ${names.join(", ")}?`;
    },
    async change(at) {
      const names = at.given.operands("NAME");
      const kept = Object.fromEntries(
        Object.entries(await read(at)).filter(([name]) => !names.includes(name)),
      );
      const { message } = await write(at, kept);
      return { names, message };
    },
    said: ({ names, message }) => `${names.join(", ")}: ${message}`,
  }),
};

async function read({ api, path }: At): Promise<Readonly<Record<string, string>>> {
  return path.app_id === ""
    ? await answerOf(api.GET(projectRoute, { params: { path } }))
    : await answerOf(api.GET(appRoute, { params: { path } }));
}

async function write({ api, path, given }: At, body: Readonly<Record<string, string>>) {
  const params = { path, query: { restart: given.has("restart") } };
  return path.app_id === ""
    ? await answerOf(api.PATCH(projectRoute, { params, body }))
    : await answerOf(api.PATCH(appRoute, { params, body }));
}

async function fileSecrets({ given }: At): Promise<Readonly<Record<string, string>>> {
  const file = given.text("from-env");
  if (file === undefined) return {};
  const bytes = file === "-" ? await readInput() : await fileBytes(file);
  const found = readEnvFile(bytes, file === "-" ? "standard input" : file);
  if (Object.keys(found).length === 0) throw misuse(`${file} has no lines of the form NAME=value.`);
  return found;
}

async function typedSecrets({ given, machine }: At): Promise<Record<string, string>> {
  const pairs = given.operands("NAME=value");
  const bare = pairs.filter((pair) => !pair.includes("="));
  if (bare.length > 0 && given.text("from-env") === "-")
    throw misuse(`${bare.join(", ")}: the value is missing.`);
  if (bare.length > 1 && !machine.isInteractive) {
    throw misuse(
      `${bare.join(", ")}: standard input has one value only. Set them one by one, or use --from-env -.`,
    );
  }
  const typed: [string, string][] = [];
  for (const pair of pairs) {
    const at = pair.indexOf("=");
    typed.push(
      at === -1
        ? [pair, await askedValue(pair, machine.isInteractive)]
        : [pair.slice(0, at), pair.slice(at + 1)],
    );
  }
  return Object.fromEntries(typed);
}

async function askedValue(name: string, isInteractive: boolean): Promise<string> {
  // A value that a program writes usually ends with a line break that is not meant.
  if (!isInteractive) {
    const value = (await readInput()).toString().replace(/\r?\n$/, "");
    if (value !== "") return value;
    throw misuse(
      `Nothing came on standard input for ${name}. To make it empty: slipway secrets set ${name}=`,
    );
  }
  return await askSecret(`${name}: `);
}

async function fileBytes(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file);
  } catch (error) {
    throw misuse(`${file} cannot be read: ${errorMessage(error)}.`, error);
  }
}

function noSecret(name: string, names: readonly string[]): Refused {
  const meant = closestName(name, names);
  const hint = meant === undefined ? "" : ` Did you mean ${meant}?`;
  return new Refused(`There is no secret "${name}".${hint} To list them: slipway secrets`, {
    exitCode: exitCodes.notFound,
  });
}
