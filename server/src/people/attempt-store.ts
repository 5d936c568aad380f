// Rows of what was tried how often.
import { sql } from "kysely";
import { must } from "#lib/assert.ts";
import type { Db } from "#store/database.ts";

/**
 * Counts one more; a window that has ended starts anew. `used` goes up to one above `max`. Locks
 * the row.
 */
export async function takeAttempt(
  db: Db,
  given: { readonly key: string; readonly at: Date; readonly endsAt: Date; readonly max: number },
): Promise<{ used: number; endsAt: Date }> {
  const { key, at, endsAt, max } = given;
  const { rows } = await sql<{ used: number; ends_at: Date }>`
    insert into person_attempts as held (key, used, ends_at) values (${key}, 1, ${endsAt})
    on conflict (key) do update
      set used = case when held.ends_at <= ${at} then 1 else least(held.used + 1, ${max + 1}) end,
          ends_at = case when held.ends_at <= ${at} then excluded.ends_at else held.ends_at end
    returning used, ends_at`.execute(db);
  const row = must(rows[0], "an insert with a returning clause returns a row");
  return { used: row.used, endsAt: row.ends_at };
}

/** Counts one less. */
export async function giveBackAttempt(db: Db, key: string): Promise<void> {
  await db
    .updateTable("person_attempts")
    .set({ used: sql<number>`greatest(used - 1, 0)` })
    .where("key", "=", key)
    .execute();
}
