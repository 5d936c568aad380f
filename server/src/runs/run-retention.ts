// What is older than the operator wants to keep of runs: results and requests first, then the runs and calls themselves,
// and idempotency keys after a day. No step touches a run that has not ended: only the end of a run has an age.
import type { Clock } from "#lib/clock.ts";
import { daysAgo, type RemovalStep } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { olderRows } from "#store/older-rows.ts";
import { deleteOldRequests } from "./dead-run-store.ts";

/** Rows with bodies of megabytes: few at once. */
const bodiesMax = 200;
/** docs: a repeated key gives the same run for 24 hours. */
const keyDays = 1;

/** The steps of one turn; days as configured. */
export function runRetention(options: {
  readonly db: Db;
  readonly clock: Clock;
  readonly resultRetentionDays: number;
  readonly runRetentionDays: number;
}): RemovalStep[] {
  const { db, clock, resultRetentionDays, runRetentionDays } = options;
  // No later than the runs that they belong to: whole runs are deleted many at once, and so should have no bodies any more.
  const bodiesBefore = daysAgo(clock, Math.min(resultRetentionDays, runRetentionDays));
  const bodies = { before: bodiesBefore, batchMax: bodiesMax };
  const before = daysAgo(clock, runRetentionDays);
  return [
    olderRows(db, { name: "results", table: "run_results", time: "created_at", ...bodies }),
    {
      name: "requests",
      batchMax: bodiesMax,
      remove: (limit) => deleteOldRequests(db, { before: bodiesBefore, limit }),
    },
    olderRows(db, { name: "runs", table: "runs", time: "ended_at", before }),
    olderRows(db, { name: "calls", table: "calls", time: "ended_at", before }),
    olderRows(db, { name: "numbers of calls that were not recorded", table: "calls_left_out", time: "at", before }),
    olderRows(db, { name: "keys", table: "run_keys", time: "created_at", before: daysAgo(clock, keyDays) }),
  ];
}
