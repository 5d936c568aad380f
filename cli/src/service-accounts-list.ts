// `slipway service-accounts list`: the service accounts of a project.
import { listOf, textOf, textOrNull, type Fields } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { accountsPath } from "./service-account.ts";
import { jsonOption, printTable } from "./table.ts";

/** Lists service accounts. */
export const listServiceAccounts = command({
  name: "service-accounts list",
  about: "List the service accounts of the project, with their permissions, expiry and last use.",
  options: { ...projectOptions, ...jsonOption },
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const answer = await connection.client.get(accountsPath(project));
    if (given.has("json")) {
      machine.print(JSON.stringify(answer));
      return;
    }
    printTable(machine, ["NAME", "STATE", "RIGHTS", "EXPIRES", "LAST USED", "FROM", "ID"], listOf(answer).map(rowOf));
  },
});

function rowOf(account: Fields): string[] {
  const chosen = account["permissions"];
  const rights = Array.isArray(chosen) ? chosen.join(",") : (textOrNull(account, "role") ?? "");
  return [
    textOf(account, "name"),
    textOf(account, "state"),
    rights,
    textOrNull(account, "expires_at") ?? "never",
    textOrNull(account, "last_used_at") ?? "never",
    textOrNull(account, "last_used_address") ?? "",
    textOf(account, "id"),
  ];
}
