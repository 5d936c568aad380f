// `slipway keys …`: tokens for calling the apps of a project and nothing else.
import { answerOf } from "@slipway/client/client.ts";
import { readableToken } from "./call-token.ts";
import { expiresOption, expiryOf, issuedVerbs, tokenText } from "./issued-token.ts";
import { output } from "./output.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import { changeCommand, listCommand, resourceCommand, type At } from "./resource.ts";
import { moment, state } from "./table.ts";

const keyOperand = { name: "key", about: "The key's name or id." } as const;
const route = "/v2/projects/{project_id}/api-keys" as const;
const oneRoute = `${route}/{api_key_id}` as const;

/** The commands of tokens for calls, by verb. */
export const keys = {
  list: listCommand({
    name: "keys list",
    about:
      "List the tokens for calling the apps of the project. The list never shows the tokens themselves; with --json, it has those that are readable.",
    examples: ["keys"],
    of: "project",
    items: keysOf,
    columns: {
      NAME: ({ name }) => name,
      STATE: (one) => state(one.state),
      READABLE: ({ readable }) => (readable ? "yes" : "no"),
      EXPIRES: ({ expires_at }) => moment(expires_at) ?? "never",
      "LAST USED": ({ last_used_at }) => moment(last_used_at) ?? "never",
      ID: ({ id }) => id,
    },
    none: "The project has no tokens for calling apps. To create one: slipway keys create <name>",
  }),

  create: changeCommand({
    name: "keys create",
    about: `Create a token that calls the apps of the project and does nothing else, and print it. Only the token goes to
standard output. A readable one is not lost: slipway call uses it, and who may issue tokens can see it again.`,
    examples: ["keys create website", "keys create terminal --readable --expires 90d"],
    of: "project",
    operands: [{ name: "name", about: "Display name, here and in the audit log." }],
    options: {
      readable: { value: null, about: "It can be read again by those who may issue tokens." },
      ...expiresOption("in ten years"),
    },
    async change({ given, api, path }) {
      const expires = given.text("expires");
      const expires_at = expires === undefined ? undefined : expiryOf(expires);
      if (expires_at === null)
        throw misuse(
          '--expires is "never", but tokens for calling apps end; the default is ten years.',
        );
      const body = {
        name: given.operand("name"),
        readable: given.has("readable"),
        ...(expires_at === undefined ? {} : { expires_at }),
      };
      return await answerOf(api.POST(route, { params: { path }, body }));
    },
    said: ({ name, expires_at }) => [
      `Created the key ${name}${expires_at === null ? "" : `, valid until ${expires_at}`}.`,
      tokenText,
    ],
    result: ({ token }) => token,
  }),

  show: resourceCommand({
    name: "keys show",
    about:
      "Print a token that calls the apps of the project: that of its first readable key, as slipway call uses it.",
    examples: ["keys show"],
    of: "project",
    async run(at) {
      const token = await readableToken(at);
      if (token !== null)
        return output(at.given, at.machine, { token }, () => at.machine.print(token));
      const how = "To create one: slipway keys create <name> --readable";
      throw new Refused(`The project has no readable key that is valid. ${how}`, {
        exitCode: exitCodes.notFound,
      });
    },
  }),

  ...issuedVerbs({
    command: "keys",
    noun: "key",
    example: "website",
    operand: keyOperand,
    list: "keys",
    items: keysOf,
    rotate: (at, id, body) =>
      answerOf(
        at.api.POST(`${oneRoute}/rotate`, {
          params: { path: { ...at.path, api_key_id: id } },
          body,
        }),
      ),
    remove: (at, id) =>
      answerOf(at.api.DELETE(oneRoute, { params: { path: { ...at.path, api_key_id: id } } })),
  }),
};

async function keysOf({ api, path }: At) {
  return await answerOf(api.GET(route, { params: { path } }));
}
