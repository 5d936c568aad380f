// `slipway service-accounts create`: makes a service account and prints its token.
import { fieldsOf, textOrNull } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { endOf } from "./life.ts";
import { Refused } from "./refused.ts";
import { accountsPath, showToken } from "./service-account.ts";
import { jsonOption } from "./table.ts";

const lifeDefault = "90d";

/** Makes one. */
export const createServiceAccount = command({
  name: "service-accounts create",
  about: `Makes a service account of the project and prints its token, which is shown this once.
It may never do more than you may. The token alone goes to standard output.`,
  operands: [{ name: "name", about: "What people are shown, here and in the audit log." }],
  options: {
    role: { value: "<role>", about: "What it may do: owner, admin, member or billing; member when nothing is chosen." },
    permissions: { value: "<list>", about: "Instead of a role: permissions, separated by commas." },
    expires: { value: "<when>", about: `Such as 30d, 12h, a time, or never; ${lifeDefault} when left out.` },
    ...projectOptions,
    ...jsonOption,
  },
  async run(given, machine) {
    const [role, permissions] = [given.text("role"), given.text("permissions")];
    if (role !== undefined && permissions !== undefined) {
      throw new Refused("Either --role or --permissions says what it may do, not both.", { exitCode: 2 });
    }
    const rights = permissions === undefined ? { role: role ?? "member" } : { permissions: listed(permissions) };
    const expires = endOf(given.text("expires") ?? lifeDefault, { option: "--expires", nowMs: Date.now() });
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const body = { name: given.operand("name"), ...rights, expires_at: expires };
    const issued = fieldsOf(await connection.client.ask({ method: "POST", path: accountsPath(project), body }));
    const end = textOrNull(issued, "expires_at");
    const said = `Made the service account ${given.operand("name")}, valid ${end === null ? "until it is deleted" : `until ${end}`}.`;
    showToken(machine, issued, { isJson: given.has("json"), said });
  },
});

function listed(text: string): string[] {
  return text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}
