// Removes what is older than the operator wants to keep of runs: results and requests first, then the runs and calls
// themselves, and idempotency keys after a day; in bounded steps. A loop: what one turn leaves, the next one finds.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import {
  deleteOldCalls,
  deleteOldKeys,
  deleteOldLeftOut,
  deleteOldRequests,
  deleteOldResults,
  deleteOldRuns,
  type DeleteSome,
} from "./run-retention-store.ts";

/** What retention needs; days as configured. */
export type RunRetentionOptions = {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly resultRetentionDays: number;
  readonly runRetentionDays: number;
};

type Step = {
  readonly name: string;
  readonly deleteSome: DeleteSome;
  readonly days: number;
  readonly batchMax: number;
};

const dayMs = 86_400_000;
/** Old rows may stay an hour longer. */
const intervalMs = 3_600_000;
/** Rows with bodies of megabytes: few at once. */
const largeBatchMax = 200;
const batchMax = 5_000;
/** Steps of one turn and kind: more than a busy platform makes within an interval. */
const stepsMax = 4_000;
/** docs: a repeated key gives the same run for 24 hours. */
const keyDays = 1;

/** The loop; start and stop it with the platform. */
export function runRetentionLoop(options: RunRetentionOptions): Loop {
  const { clock, log } = options;
  const turn = (signal: AbortSignal): Promise<void> => removeOldRuns(options, signal);
  return new Loop({ name: "run retention", intervalMs, waitsForClock: true, clock, log, turn });
}

/** One turn: removes what is too old, until nothing is left, the bound is reached or `signal` is aborted. */
export async function removeOldRuns(options: RunRetentionOptions, signal: AbortSignal): Promise<void> {
  for (const step of stepsOf(options)) await removeOld(options, step, signal);
}

function stepsOf({ resultRetentionDays, runRetentionDays }: RunRetentionOptions): Step[] {
  // No later than the runs that they belong to: whole runs are deleted many at once, and so should have no bodies any more.
  const bodyDays = Math.min(resultRetentionDays, runRetentionDays);
  return [
    { name: "results", deleteSome: deleteOldResults, days: bodyDays, batchMax: largeBatchMax },
    { name: "requests", deleteSome: deleteOldRequests, days: bodyDays, batchMax: largeBatchMax },
    { name: "runs", deleteSome: deleteOldRuns, days: runRetentionDays, batchMax },
    { name: "calls", deleteSome: deleteOldCalls, days: runRetentionDays, batchMax },
    { name: "numbers of calls that were not recorded", deleteSome: deleteOldLeftOut, days: runRetentionDays, batchMax },
    { name: "idempotency keys", deleteSome: deleteOldKeys, days: keyDays, batchMax },
  ];
}

async function removeOld({ db, clock, log }: RunRetentionOptions, step: Step, signal: AbortSignal): Promise<void> {
  const before = new Date(clock.now() - step.days * dayMs);
  let removed = 0;
  for (let count = 0; count < stepsMax && !signal.aborted; count++) {
    const some = await step.deleteSome(db, { before, limit: step.batchMax });
    removed += some;
    if (some < step.batchMax) break;
  }
  if (removed > 0) log.info({ removed, days: step.days }, `removed old ${step.name}`);
}
