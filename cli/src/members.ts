// `slipway members`: lists the members of a project and its open invitations.
import { listOf, textOf, type Fields } from "./answer.ts";
import { ApiRefused, type ApiClient } from "./api-client.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import { jsonOption, printTable } from "./table.ts";

/** Lists members, and open invitations if the caller may see them. */
export const listMembers = command({
  name: "members list",
  about: "List the members of the project, followed by invitations that have not been accepted yet.",
  options: { ...projectOptions, ...jsonOption },
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const members = await connection.client.get(projectPath(project, "/members"));
    if (given.has("json")) {
      machine.print(JSON.stringify(members));
      return;
    }
    const rows = listOf(members).map((one) => [
      textOf(one, "email"),
      textOf(one, "name"),
      textOf(one, "role"),
      "member",
    ]);
    const invited = await invitationsOf(connection.client, project);
    const open = invited.map((one) => [
      textOf(one, "email"),
      "",
      textOf(one, "role"),
      `invited until ${textOf(one, "expiresAt")}`,
    ]);
    printTable(machine, ["EMAIL", "NAME", "ROLE", "STATE"], [...rows, ...open]);
  },
});

/** Only callers who may invite can see invitations. */
async function invitationsOf(client: ApiClient, project: string): Promise<Fields[]> {
  try {
    return listOf(await client.get(projectPath(project, "/invitations")));
  } catch (error) {
    if (error instanceof ApiRefused && error.status === 403) return [];
    throw error;
  }
}
