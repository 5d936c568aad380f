// Reads when a platform last worked on the database, to notice that the clock has stepped since.
import { readRow, type Db } from "./database.ts";

/**
 * The later of the last audit entry's time and the time at which a living replica was last seen;
 * null when there is neither. No locks.
 */
export async function readLatestTime(db: Db): Promise<Date | null> {
  const row = await readRow<{ readonly at: Date | null }>(db)`
    select greatest((select at from audit_log order by id desc limit 1),
                    (select max(seen_at) from replicas where stopped_at is null)) as at`;
  return row?.at ?? null;
}
