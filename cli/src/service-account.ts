// Shared by the service account commands: find the named account, and show a new token.
import { listOf, textOf, type Fields } from "./answer.ts";
import { projectPath, type Connection } from "./connection.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

/** The API path of a project's service accounts. */
export function accountsPath(project: string, rest = ""): string {
  return projectPath(project, `/service-accounts${rest}`);
}

/** The service account with this id or name; if several share the name, the active one. Throws `Refused`. */
export async function accountOf({ client }: Connection, project: string, named: string): Promise<Fields> {
  const accounts = listOf(await client.get(accountsPath(project)));
  const byId = accounts.find((one) => one["id"] === named);
  if (byId !== undefined) return byId;
  const byName = accounts.filter((one) => one["name"] === named && one["state"] === "active");
  const [only] = byName;
  if (only === undefined) {
    throw new Refused(
      `The project has no active service account "${named}". To list them: slipway service-accounts list`,
    );
  }
  if (byName.length === 1) return only;
  const ids = byName.map((one) => textOf(one, "id")).join(", ");
  throw new Refused(`Several service accounts are named "${named}". Use an id instead: ${ids}`);
}

/** Prints only the token to standard output, for scripts, and the rest to the person. */
export function showToken(machine: Machine, issued: Fields, { isJson, said }: { isJson: boolean; said: string }): void {
  if (isJson) {
    machine.print(JSON.stringify(issued));
    return;
  }
  machine.tell(plain(said));
  machine.tell("This is its token. It is shown only once; keep it secret like a password:");
  machine.print(textOf(issued, "token"));
}
