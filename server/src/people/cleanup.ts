// Removes sessions, links and counts of tries that have expired; they are not taken any more long before.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { deleteExpired } from "./people-store.ts";

const intervalMs = 600_000;
/** Rows of each kind that a turn removes. */
const rowsMost = 5_000;

/** The loop; start and stop it. */
export function peopleCleanup({ db, clock, log }: { db: Db; clock: Clock; log: Log }): Loop {
  const turn = (): Promise<void> => deleteExpired(db, { at: new Date(clock.now()), limit: rowsMost });
  return new Loop({ name: "expired sessions", turn, intervalMs, log, clock });
}
