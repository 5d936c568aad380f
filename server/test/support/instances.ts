// Rows of replicas name the platform that runs them, which has a row of its own: a running one writes it when it has the
// lock on the database.
import type { Backend } from "#scheduler/replica-rows.ts";
import type { Db } from "#store/database.ts";

/** Adds the row that replicas of this backend refer to, if it is not there. */
export async function addInstance(db: Db, backend: Backend): Promise<Backend> {
  const row = { host: "host", pid: 1, data_dir: `/data/${backend.instanceId}`, connection_pid: 0 };
  await db
    .insertInto("instances")
    .values({ id: backend.instanceId, ...row, locked_at: new Date() })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return backend;
}
