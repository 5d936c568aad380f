// What only whoever owns the database's tables can do, past the platform's role and all triggers: tests play an intruder
// with it, or make rows that no running platform would.
import { sql } from "kysely";
import type { Db, Tx } from "#store/database.ts";

/** Runs `change` in a transaction as the owner, with all triggers off. The test's own server lets its user do that. */
export async function asOwner<Result>(db: Db, change: (tx: Tx) => Promise<Result>): Promise<Result> {
  return await db.transaction().execute(async (tx) => {
    await sql`set local role none`.execute(tx);
    await sql`set local session_replication_role = replica`.execute(tx);
    return await change(tx);
  });
}

/** Removes every entry of the audit log, with all that the chains have: as if none had ever been made. */
export async function emptyAuditLog(db: Db): Promise<void> {
  await asOwner(db, async (tx) => {
    for (const table of ["audit_checkpoints", "audit_stubs", "audit_links", "audit_chains", "audit_log"] as const) {
      await tx.deleteFrom(table).execute();
    }
  });
}
