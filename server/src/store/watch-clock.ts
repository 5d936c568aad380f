// Watches the machine's clock for the platform and reports steps soon. At the start, compares the
// clock with the last time in the database, since nothing else shows a step that happened while the
// platform was down.
import { Loop } from "#lib/loop.ts";
import type { SteadyClock } from "#lib/steady-clock.ts";
import type { Foundation } from "./foundation.ts";
import { readLatestTime } from "./latest-time-store.ts";

/** A step is reported within this time. Reading the clock costs nothing. */
const readEveryMs = 2_000;
/** A longer downtime cannot be told from a clock that went ahead. */
const awayMsMax = 86_400_000;
/** A clock that is behind by less is not reported at the start. */
const backMsMin = 60_000;

/** Reports steps from now on. */
export async function watchClock(
  clock: SteadyClock,
  { db, lifecycle, log }: Pick<Foundation, "db" | "lifecycle" | "log">,
): Promise<void> {
  clock.watch(log);
  const lastMs = (await readLatestTime(db))?.getTime() ?? clock.now();
  const passedMs = clock.now() - lastMs;
  const seconds = Math.round(passedMs / 1000);
  if (passedMs > awayMsMax) {
    clock.unsettle();
    log.info(
      { seconds },
      "the platform was down for more than a day, or the machine's clock is ahead: for a day, no data is deleted for its age",
    );
  } else if (passedMs < -backMsMin) {
    clock.unsettle();
    log.warn(
      { seconds },
      "the machine's clock is behind the latest time in the database: set it right; for a day, no data is deleted for its age",
    );
  }
  // Each reading of the clock reports its steps.
  const turn = (): Promise<void> => Promise.resolve(void clock.now());
  new Loop({ name: "clock", intervalMs: readEveryMs, turn, clock, log }).startWithin(lifecycle);
}
