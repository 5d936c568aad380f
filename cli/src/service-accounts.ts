// `slipway service-accounts …`: tokens for programs that use the management API.
import { answerOf } from "@slipway/client/client.ts";
import { choosablePermissions, roles } from "@slipway/contract/words.ts";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
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
import { changeCommand, choice, listCommand, type At } from "./resource.ts";
import { moment, state } from "./table.ts";

const lifeDefault = "90d";
const accountOperand = { name: "account", about: "The service account's name or id." } as const;
const route = "/v2/projects/{project_id}/service-accounts" as const;
const oneRoute = `${route}/{service_account_id}` as const;

/** By verb. */
export const serviceAccounts = {
  list: listCommand({
    name: "service-accounts list",
    about: "List the service accounts of the project, with their permissions, expiry and last use.",
    examples: ["service-accounts list"],
    of: "project",
    items: accountsOf,
    columns: {
      NAME: ({ name }) => name,
      STATE: (one) => state(one.state),
      RIGHTS: ({ role, permissions }) => role ?? permissions?.join(",") ?? "",
      EXPIRES: ({ expires_at }) => moment(expires_at) ?? "never",
      "LAST USED": ({ last_used_at }) => moment(last_used_at) ?? "never",
      FROM: ({ last_used_address }) => last_used_address ?? "",
      ID: ({ id }) => id,
    },
    none: "The project has no service accounts. To create one: slipway service-accounts create <name>",
  }),

  create: changeCommand({
    name: "service-accounts create",
    about: `Create a service account in the project and print its token, which is shown only once.
It never has more permissions than you. Only the token goes to standard output.`,
    examples: [
      "service-accounts create ci",
      "service-accounts create caller --permissions apps.call,runs.read --expires 30d",
    ],
    of: "project",
    operands: [{ name: "name", about: "Display name, here and in the audit log." }],
    options: {
      role: { value: "<role>", about: "Role: owner, admin, member or billing. Default: member." },
      permissions: { value: "<list>", about: "Permissions instead of a role, separated by commas." },
      ...expiresOption(lifeDefault),
    },
    async change({ given, api, path }) {
      const [role, permissions] = [choice(given, "role", roles), given.text("permissions")];
      if (role !== undefined && permissions !== undefined)
        throw misuse("Use either --role or --permissions, not both.");
      const rights =
        permissions === undefined ? { role: role ?? "member" } : { permissions: permissionsOf(permissions) };
      const expires_at = expiryOf(given.text("expires") ?? lifeDefault);
      const body = { name: given.operand("name"), ...rights, ...(expires_at === null ? {} : { expires_at }) };
      return await answerOf(api.POST(route, { params: { path }, body }));
    },
    said: ({ name, expires_at }) => [
      `Created the service account ${name}, valid ${expires_at === null ? "until it is deleted" : `until ${expires_at}`}.`,
      tokenText,
    ],
    result: ({ token }) => token,
  }),

  rotate: changeCommand({
    name: "service-accounts rotate",
    about: `Print a new token for a service account; it is shown only once. The previous token stays valid for the overlap, so
that you can deploy the new one. Only the new token goes to standard output.`,
    examples: ["service-accounts rotate ci", "service-accounts rotate ci --overlap 7d"],
    of: "project",
    operands: [accountOperand],
    options: rotationOptions,
    async change(at) {
      const body = rotationOf(at);
      const path = await pathOf(at);
      return await answerOf(at.api.POST(`${oneRoute}/rotate`, { params: { path }, body }));
    },
    said: ({ name }, at) => rotatedText(name, at),
    result: ({ token }) => token,
  }),

  delete: changeCommand({
    name: "service-accounts delete",
    about: "Delete a service account. Its tokens are revoked everywhere within a second.",
    examples: ["service-accounts delete ci --yes"],
    of: "project",
    operands: [accountOperand],
    question: ({ given }) => `Delete the service account ${given.operand("account")} and revoke its tokens?`,
    change: async (at) => await answerOf(at.api.DELETE(oneRoute, { params: { path: await pathOf(at) } })),
    said: ({ name }) => `Deleted the service account ${name}; its tokens are revoked.`,
  }),
};

async function accountsOf({ api, path }: At) {
  return await answerOf(api.GET(route, { params: { path } }));
}

async function pathOf(at: At) {
  const wanted = { kind: "service account", list: "service-accounts list" };
  const { id } = accountOf(await accountsOf(at), at.given.operand("account"), wanted);
  return { ...at.path, service_account_id: id };
}

function permissionsOf(text: string) {
  const names = text.split(",").flatMap((one) => (one.trim() === "" ? [] : [one.trim()]));
  return names.map((name) => {
    const permission = choosablePermissions.find((one) => one === name);
    if (permission !== undefined) return permission;
    const meant = closestName(name, choosablePermissions);
    const hint = meant === undefined ? `They are: ${choosablePermissions.join(", ")}.` : `Did you mean ${meant}?`;
    throw misuse(`--permissions has "${name}", which is not a permission. ${hint}`);
  });
}
