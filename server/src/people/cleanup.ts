// Removes sessions, links and counts of tries that have expired; they are not taken any more long before.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { deleteExpired } from "./people-store.ts";

const intervalMs = 600_000;
/** Rows of each kind that one statement removes. */
const rowsMost = 5_000;
/** Statements of a turn: strangers who try addresses from everywhere must not add more than is removed. */
const roundsMost = 200;

/** The loop; start and stop it. */
export function peopleCleanup({ db, clock, log }: { db: Db; clock: Clock; log: Log }): Loop {
  const turn = async (signal: AbortSignal): Promise<void> => {
    const limit = { at: new Date(clock.now()), limit: rowsMost };
    for (let round = 0; round < roundsMost && !signal.aborted; round++) {
      if (!(await deleteExpired(db, limit))) return;
    }
  };
  return new Loop({ name: "expired sessions", turn, intervalMs, waitsForClock: true, log, clock });
}
