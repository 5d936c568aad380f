// `slipway service-accounts create`: creates a service account and prints its token.
import { fieldsOf, textOrNull } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { endOf } from "./life.ts";
import { Refused } from "./refused.ts";
import { accountsPath, showToken } from "./service-account.ts";
import { jsonOption } from "./table.ts";

const lifeDefault = "90d";

/** Creates a service account. */
export const createServiceAccount = command({
  name: "service-accounts create",
  about: `Create a service account in the project and print its token, which is shown only once.
It never has more permissions than you. Only the token goes to standard output.`,
  operands: [{ name: "name", about: "Display name, here and in the audit log." }],
  options: {
    role: { value: "<role>", about: "Role: owner, admin, member or billing. Default: member." },
    permissions: { value: "<list>", about: "Permissions instead of a role, separated by commas." },
    expires: { value: "<when>", about: `30d, 12h, a time, or never. Default: ${lifeDefault}.` },
    ...projectOptions,
    ...jsonOption,
  },
  async run(given, machine) {
    const [role, permissions] = [given.text("role"), given.text("permissions")];
    if (role !== undefined && permissions !== undefined) {
      throw new Refused("Use either --role or --permissions, not both.", { exitCode: 2 });
    }
    const rights = permissions === undefined ? { role: role ?? "member" } : { permissions: listed(permissions) };
    const expires = endOf(given.text("expires") ?? lifeDefault, { option: "--expires", nowMs: Date.now() });
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const body = { name: given.operand("name"), ...rights, expires_at: expires };
    const issued = fieldsOf(await connection.client.ask({ method: "POST", path: accountsPath(project), body }));
    const end = textOrNull(issued, "expires_at");
    const said = `Created the service account ${given.operand("name")}, valid ${end === null ? "until it is deleted" : `until ${end}`}.`;
    showToken(machine, issued, { isJson: given.has("json"), said });
  },
});

function listed(text: string): string[] {
  return text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}
