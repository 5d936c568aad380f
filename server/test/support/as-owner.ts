// Operations that only the owner of the database tables can do, bypassing the platform's role and
// all triggers. Tests use them to play an intruder, or to create rows that no running platform
// would write.
import { sql } from "kysely";
import type { Db, Tx } from "#store/database.ts";

/**
 * Runs `change` in a transaction as the owner, with all triggers off. The test database server
 * allows its user to do that.
 */
export async function asOwner<Result>(
  db: Db,
  change: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  return await db.transaction().execute(async (tx) => {
    await sql`set local role none`.execute(tx);
    await sql`set local session_replication_role = replica`.execute(tx);
    return await change(tx);
  });
}

/** Removes every entry of the audit log and all chain data, as if there had never been any. */
export async function emptyAuditLog(db: Db): Promise<void> {
  await asOwner(db, async (tx) => {
    for (const table of [
      "audit_checkpoints",
      "audit_stubs",
      "audit_links",
      "audit_chains",
      "audit_log",
    ] as const) {
      await tx.deleteFrom(table).execute();
    }
  });
}
