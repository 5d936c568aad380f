// `slipway service-accounts …`: tokens for programs that use the management API.
import { answerOf } from "@slipway/client/client.ts";
import { choosablePermissions, roles } from "@slipway/contract/words.ts";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { expiresOption, expiryOf, issuedVerbs, tokenText } from "./issued-token.ts";
import { misuse } from "./refused.ts";
import { changeCommand, choice, listCommand, type At } from "./resource.ts";
import { moment, state } from "./table.ts";

const lifeDefault = "90d";
const accountOperand = { name: "account", about: "The service account's name or id." } as const;
const route = "/v2/projects/{project_id}/service-accounts" as const;
const oneRoute = `${route}/{service_account_id}` as const;

/** The commands of service accounts, by verb. */
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
      permissions: {
        value: "<list>",
        about: "Permissions instead of a role, separated by commas.",
      },
      ...expiresOption(lifeDefault),
    },
    async change({ given, api, path }) {
      const role = choice(given, "role", roles);
      const permissions = given.text("permissions");
      if (role !== undefined && permissions !== undefined)
        throw misuse("Use either --role or --permissions, not both.");
      const rights =
        permissions === undefined
          ? { role: role ?? "member" }
          : { permissions: permissionsOf(permissions) };
      const expires_at = expiryOf(given.text("expires") ?? lifeDefault);
      const body = {
        name: given.operand("name"),
        ...rights,
        ...(expires_at === null ? {} : { expires_at }),
      };
      return await answerOf(api.POST(route, { params: { path }, body }));
    },
    said: ({ name, expires_at }) => [
      `Created the service account ${name}, valid ${expires_at === null ? "until it is deleted" : `until ${expires_at}`}.`,
      tokenText,
    ],
    result: ({ token }) => token,
  }),

  ...issuedVerbs({
    command: "service-accounts",
    noun: "service account",
    example: "ci",
    operand: accountOperand,
    list: "service-accounts list",
    items: accountsOf,
    rotate: (at, id, body) =>
      answerOf(
        at.api.POST(`${oneRoute}/rotate`, {
          params: { path: { ...at.path, service_account_id: id } },
          body,
        }),
      ),
    remove: (at, id) =>
      answerOf(
        at.api.DELETE(oneRoute, { params: { path: { ...at.path, service_account_id: id } } }),
      ),
  }),
};

async function accountsOf({ api, path }: At) {
  return await answerOf(api.GET(route, { params: { path } }));
}

function permissionsOf(text: string) {
  const names = text.split(",").flatMap((one) => (one.trim() === "" ? [] : [one.trim()]));
  return names.map((name) => {
    const permission = choosablePermissions.find((one) => one === name);
    if (permission !== undefined) return permission;
    const meant = closestName(name, choosablePermissions);
    const hint =
      meant === undefined
        ? `They are: ${choosablePermissions.join(", ")}.`
        : `Did you mean ${meant}?`;
    throw misuse(`--permissions has "${name}", which is not a permission. ${hint}`);
  });
}
