// A database server for seeds that are run by hand, with one database of the simulation.
import { Secret } from "#lib/secret.ts";
import { cloneDatabase, startTestServer, templateName } from "#test/support/test-server.ts";
import { SimDatabase } from "./sim-database.ts";

const name = "simulation";

/** Nothing of it is left once `use` has ended. */
export async function withSimDatabase(
  use: (database: SimDatabase) => Promise<void>,
): Promise<void> {
  const server = await startTestServer();
  try {
    const url = await cloneDatabase(server.url, { name, template: templateName });
    const database = await SimDatabase.open(new Secret(url));
    try {
      await use(database);
    } finally {
      await database.close();
    }
  } finally {
    await server.stop();
  }
}
