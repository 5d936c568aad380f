// `slipway keys …`: tokens for calling the apps of a project and nothing else.
import { answerOf } from "@slipway/client/client.ts";
import {
  accountOf,
  expiresOption,
  expiryOf,
  rotatedText,
  rotationOf,
  rotationOptions,
  tokenText,
} from "./issued-token.ts";
import { misuse } from "./refused.ts";
import { changeCommand, listCommand, type At } from "./resource.ts";
import { moment, state } from "./table.ts";

const keyOperand = { name: "key", about: "The key's name or id." } as const;
const route = "/v2/projects/{project_id}/api-keys" as const;
const oneRoute = `${route}/{api_key_id}` as const;

/** By verb. */
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
        throw misuse('--expires is "never", but tokens for calling apps end; the default is ten years.');
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

  rotate: changeCommand({
    name: "keys rotate",
    about: `Print a new token for a key. The previous token stays valid for the overlap, so that you can deploy the new one.
Only the new token goes to standard output.`,
    examples: ["keys rotate website", "keys rotate website --overlap 7d"],
    of: "project",
    operands: [keyOperand],
    options: rotationOptions,
    async change(at) {
      const body = rotationOf(at);
      return await answerOf(at.api.POST(`${oneRoute}/rotate`, { params: { path: await pathOf(at) }, body }));
    },
    said: ({ name }, at) => rotatedText(name, at),
    result: ({ token }) => token,
  }),

  delete: changeCommand({
    name: "keys delete",
    about: "Delete a key. Its tokens are revoked everywhere within a second.",
    examples: ["keys delete website --yes"],
    of: "project",
    operands: [keyOperand],
    question: ({ given }) => `Delete the key ${given.operand("key")} and revoke its tokens?`,
    change: async (at) => await answerOf(at.api.DELETE(oneRoute, { params: { path: await pathOf(at) } })),
    said: ({ name }) => `Deleted the key ${name}; its tokens are revoked.`,
  }),
};

async function keysOf({ api, path }: At) {
  return await answerOf(api.GET(route, { params: { path } }));
}

async function pathOf(at: At) {
  const { id } = accountOf(await keysOf(at), at.given.operand("key"), { kind: "key", list: "keys" });
  return { ...at.path, api_key_id: id };
}
