// `slipway service-accounts delete`: deletes a service account and revokes all its tokens.
import { textOf } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { plain } from "./plain-text.ts";
import { accountOf, accountsPath } from "./service-account.ts";

/** Deletes a service account. */
export const deleteServiceAccount = command({
  name: "service-accounts delete",
  about: "Delete a service account. Its tokens are revoked everywhere within a second.",
  operands: [{ name: "account", about: "The service account's name or id." }],
  options: projectOptions,
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const account = await accountOf(connection, project, given.operand("account"));
    const path = accountsPath(project, `/${encodeURIComponent(textOf(account, "id"))}`);
    await connection.client.ask({ method: "DELETE", path });
    machine.tell(`Deleted the service account ${plain(textOf(account, "name"))}; its tokens are revoked.`);
  },
});
