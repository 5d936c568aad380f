// The rows that count attempts, such as sign-ins: one per kind of attempt and person or address.
import { sql } from "kysely";
import { must } from "#lib/assert.ts";
import type { Db } from "#store/database.ts";

/**
 * Counts one more attempt at the time `at`. If the key's window has ended by then, a new window
 * begins, which ends at `endsAt`. `used` stops at one above `max`, which already says that the
 * attempt is refused. Locks the row.
 */
export async function takeAttempt(
  db: Db,
  attempt: { readonly key: string; readonly at: Date; readonly endsAt: Date; readonly max: number },
): Promise<{ used: number; endsAt: Date }> {
  const { key, at, endsAt, max } = attempt;
  const { rows } = await sql<{ used: number; ends_at: Date }>`
    insert into person_attempts as old (key, used, ends_at) values (${key}, 1, ${endsAt})
    on conflict (key) do update
      set used = case when old.ends_at <= ${at} then 1 else least(old.used + 1, ${max + 1}) end,
          ends_at = case when old.ends_at <= ${at} then excluded.ends_at else old.ends_at end
    returning used, ends_at`.execute(db);
  const row = must(rows[0], "an insert with a returning clause returns a row");
  return { used: row.used, endsAt: row.ends_at };
}

/** Takes back one attempt of the key. */
export async function giveBackAttempt(db: Db, key: string): Promise<void> {
  await db
    .updateTable("person_attempts")
    .set({ used: sql<number>`greatest(used - 1, 0)` })
    .where("key", "=", key)
    .execute();
}
