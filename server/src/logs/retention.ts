// Removes lines that are older than the operator wants to keep, in bounded steps, so that it never holds a lock or fills
// the write-ahead log for long. A loop: what one turn leaves, the next one finds.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { deleteOldAppLines } from "./app-log-store.ts";
import { deleteOldBuildLines } from "./build-log-store.ts";

const dayMs = 86_400_000;
/** Old lines may stay an hour longer. */
const intervalMs = 3_600_000;
const batchMax = 5_000;
/** Steps of one turn; at 5 000 lines each more than an hour's worth of a busy platform. */
const stepsMax = 2_000;

/** What retention needs; the platform keeps lines for `days`. */
export type RetentionOptions = { readonly db: Db; readonly clock: Clock; readonly log: Log; readonly days: number };

/** The loop that removes old lines of builds and apps; start and stop it with the platform. */
export function retentionLoop(options: RetentionOptions): Loop {
  const { clock, log } = options;
  return new Loop({ name: "log retention", intervalMs, clock, log, turn: (signal) => removeOldLines(options, signal) });
}

/** One turn: removes what is too old, until nothing is left, the bound is reached or `signal` is aborted. */
export async function removeOldLines(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  const { db, clock, log, days } = options;
  const before = new Date(clock.now() - days * dayMs);
  let removed = 0;
  for (const removeSome of [deleteOldAppLines, deleteOldBuildLines]) {
    for (let step = 0; step < stepsMax && !signal.aborted; step++) {
      const count = await removeSome(db, { before, limit: batchMax });
      removed += count;
      if (count < batchMax) break;
    }
  }
  if (removed > 0) log.info({ removed, days }, "removed old log lines");
}
