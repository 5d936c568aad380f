// Rows of replicas refer to the row of the instance that runs them. A running platform writes that
// row after it has locked the database.
import type { Backend } from "#scheduler/replica-rows.ts";
import type { Db } from "#store/database.ts";

/** Adds the instance row for replicas of this backend, if it does not exist. */
export async function addInstance(db: Db, backend: Backend): Promise<Backend> {
  const row = { host: "host", pid: 1, data_dir: `/data/${backend.instanceId}`, connection_pid: 0 };
  await db
    .insertInto("instances")
    .values({ id: backend.instanceId, ...row, locked_at: new Date() })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return backend;
}
