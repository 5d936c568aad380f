// Removes old data in bounded batches, so that none holds locks or fills the write-ahead log for
// long. Each area has its own loop, with one step for each kind of rows. Rows that a turn leaves
// are removed by the next turn.
import type { Clock } from "./clock.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Log } from "./log.ts";
import { Loop } from "./loop.ts";

/** One kind of rows that may be too old. */
export type RemovalStep = {
  /** The name in the log, where steps with the same name are counted together. */
  readonly name: string;
  /** Removes at most `limit` rows and returns how many. */
  readonly remove: (limit: number) => Promise<number>;
  /** The maximum number of rows in a batch; small for large rows. */
  readonly batchMax?: number | undefined;
};

type RemovalSteps = Iterable<RemovalStep> | AsyncIterable<RemovalStep>;

/** The interval is an hour, so old rows may stay an hour longer. */
const intervalMsDefault = 3_600_000;
const batchMaxDefault = 5_000;
/**
 * The maximum number of batches of a step in a turn. They remove more rows than a busy platform
 * writes in an interval. When a step has reached the maximum, the next step runs.
 */
const batchesMax = 4_000;

/** Runs the loop while the platform runs. `steps` is called again in each turn. */
export function startRetention(options: {
  readonly name: string;
  readonly steps: () => RemovalSteps;
  readonly intervalMs?: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly lifecycle: Lifecycle;
}): void {
  const { name, steps, intervalMs = intervalMsDefault, clock, log, lifecycle } = options;
  const turn = async (signal: AbortSignal): Promise<void> => {
    const removed = await removeOld(steps(), signal);
    if (Object.keys(removed).length > 0)
      log.info({ loop: name, removed }, "removed what was too old");
  };
  new Loop({ name, turn, intervalMs, waitsForClock: true, clock, log }).startWithin(lifecycle);
}

/**
 * One turn: runs each step in batches until a batch is not full, `batchesMax` is reached or
 * `signal` is aborted. Returns how many rows were removed, by the names of the steps.
 */
export async function removeOld(
  steps: RemovalSteps,
  signal: AbortSignal,
): Promise<Readonly<Record<string, number>>> {
  const removed: Record<string, number> = {};
  for await (const { name, remove, batchMax = batchMaxDefault } of steps) {
    for (let batches = 0, isMore = true; isMore && batches < batchesMax; batches++) {
      if (signal.aborted) return removed;
      const count = await remove(batchMax);
      if (count > 0) removed[name] = (removed[name] ?? 0) + count;
      isMore = count >= batchMax;
    }
  }
  return removed;
}

/** Returns the time `days` days ago. */
export function daysAgo(clock: Clock, days: number): Date {
  return new Date(clock.now() - days * dayMs);
}

const dayMs = 86_400_000;
