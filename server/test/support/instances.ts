// Rows of replicas refer to the row of the instance that looks after them. A running platform
// writes that row after it has locked the database.
import type { Client } from "pg";
import type { Keeper } from "#scheduler/replica-rows.ts";
import type { Db } from "#store/database.ts";

/** Leaves the database as versions did before installations had an id. */
export async function forgetInstallation(client: Client): Promise<void> {
  await client.query("delete from installation");
  await client.query("update instances set installation_id = null");
}

/**
 * Adds the instance row for replicas of this platform, if it does not exist. `installationId`: what
 * they carry, if it is not the instance's own id.
 */
export async function addInstance(
  db: Db,
  keeper: Keeper,
  installationId: string | null = null,
): Promise<Keeper> {
  const { instanceId } = keeper;
  const row = { host: "host", pid: 1, data_dir: `/data/${instanceId}`, connection_pid: 0 };
  await db
    .insertInto("instances")
    .values({ id: instanceId, ...row, locked_at: new Date(), installation_id: installationId })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return keeper;
}
