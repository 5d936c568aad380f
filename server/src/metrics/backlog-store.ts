// How much waits in the database, for metrics: each count is by an index of its own that holds only what has not ended, and
// ends at a bound, so that it takes as long with a million runs that have ended as with none.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";

/** A count that is not complete stands at it. */
export const countMax = 100_000;

export type Backlog = {
  readonly runs: Readonly<Record<"pending" | "queued" | "running", number>>;
  readonly builds: number;
  readonly deliveries: number;
};

/** Reads it in one statement, without locks. */
export async function readBacklog(db: Db): Promise<Backlog> {
  const { rows } = await db.transaction().execute(async (tx) => {
    // Statistics of a table that has just filled or emptied may speak for reading all of it.
    await sql`set local enable_seqscan = off`.execute(tx);
    return await sql<Record<"pending" | "queued" | "running" | "builds" | "deliveries", number>>`
      with held as (select state from runs where lease_until is not null limit ${countMax})
      select (select count(*) from (select from runs where state = 'pending' limit ${countMax}) as counted) as pending,
             (select count(*) from held where state = 'queued') as queued,
             (select count(*) from held where state = 'running') as running,
             (select count(*) from builds where ended_at is null and status = 'pending') as builds,
             (select count(*)
                from (select from webhook_deliveries where state = 'pending' and lease_holder is null
                       limit ${countMax}) as counted) as deliveries`.execute(tx);
  });
  const { pending = 0, queued = 0, running = 0, builds = 0, deliveries = 0 } = rows[0] ?? {};
  return { runs: { pending, queued, running }, builds, deliveries };
}
