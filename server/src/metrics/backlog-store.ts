// Counts the database backlog for metrics. Each count uses an index of unfinished rows, so that a
// million ended runs do not slow it down; the counts of runs and deliveries stop at a bound.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";

/** The upper bound of a count; a count that reaches it is incomplete. */
const countMax = 100_000;

export type Backlog = {
  readonly runs: Readonly<Record<"pending" | "queued" | "running", number>>;
  /** Builds that wait for their turn. */
  readonly builds: number;
  /** Deliveries that wait for an attempt. */
  readonly deliveries: number;
};

/** Reads the backlog in one statement, without locks. */
export async function readBacklog(db: Db): Promise<Backlog> {
  const { rows } = await db.transaction().execute(async (tx) => {
    // Statistics of a table that was just filled or emptied may favour a full scan.
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
