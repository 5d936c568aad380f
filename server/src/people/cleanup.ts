// What has expired of people: sessions, links and counts of tries. They are not taken any more long before.
import type { Clock } from "#lib/clock.ts";
import type { RemovalStep } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { olderRows } from "#store/older-rows.ts";

/** Often enough that strangers who try addresses from everywhere do not add more than is removed. */
export const cleanupIntervalMs = 600_000;

/** The steps of one turn. */
export function peopleCleanup({ db, clock }: { readonly db: Db; readonly clock: Clock }): RemovalStep[] {
  const before = new Date(clock.now());
  return [
    olderRows(db, { name: "sessions", table: "person_sessions", time: "expires_at", before }),
    olderRows(db, { name: "verifications", table: "person_verifications", time: "expires_at", before }),
    olderRows(db, { name: "tries", table: "person_attempts", time: "ends_at", before }),
  ];
}
