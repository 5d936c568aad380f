// Deletes old data of runs: results and requests first, then the runs and calls themselves, and
// idempotency keys a day after their creation. No step touches a running run: the age of a run and
// of its data counts from its end.
import type { AppId } from "#lib/ids.ts";
import type { Clock } from "#lib/clock.ts";
import { daysAgo, type RemovalStep } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { olderRows, rowsWhere } from "#store/older-rows.ts";
import { stepsByApp, type DaysOfProjects } from "#store/steps-by-app.ts";
import { isOldCall, isOldLeftOut } from "./call-record-store.ts";
import { deleteOldRequests } from "./dead-run-store.ts";

/** The batch size for rows that may have bodies of megabytes. */
const bodiesMax = 200;
/**
 * The docs promise that for 24 hours a repeated key returns the same run or, for a request that
 * creates something, the same answer.
 */
const keyDays = 1;

/** The steps of one turn, with the configured days. */
export async function* runRetention(options: {
  readonly db: Db;
  readonly clock: Clock;
  readonly resultRetentionDays: number;
  readonly runRetentionDays: number;
  /** How many days records of plain calls are kept. */
  readonly callRetentionDays: number;
  /** The days that the plans of projects set instead. */
  readonly callDaysOf: DaysOfProjects;
}): AsyncGenerator<RemovalStep> {
  const { db, clock, resultRetentionDays, runRetentionDays, callRetentionDays } = options;
  // Bodies are deleted no later than their runs: runs are deleted in large batches, so they should
  // have no bodies by then.
  const bodiesBefore = daysAgo(clock, Math.min(resultRetentionDays, runRetentionDays));
  const bodies = { before: bodiesBefore, batchMax: bodiesMax };
  const before = daysAgo(clock, runRetentionDays);
  yield* [
    olderRows(db, { name: "results", table: "run_results", time: "created_at", ...bodies }),
    {
      name: "requests",
      batchMax: bodiesMax,
      remove: (limit) => deleteOldRequests(db, { before: bodiesBefore, limit }),
    },
    olderRows(db, { name: "runs", table: "runs", time: "ended_at", before }),
    olderRows(db, {
      name: "keys",
      table: "run_keys",
      time: "created_at",
      before: daysAgo(clock, keyDays),
    }),
    olderRows(db, {
      name: "keys of API requests",
      table: "request_keys",
      time: "created_at",
      before: daysAgo(clock, keyDays),
    }),
  ];
  yield* stepsByApp(db, {
    days: callRetentionDays,
    daysOf: options.callDaysOf,
    stepsOf: (days, appId) => callSteps(db, daysAgo(clock, days), appId),
  });
}

/**
 * The steps that delete old records of the calls of one app, or of all apps if `appId` is
 * undefined.
 */
function callSteps(db: Db, before: Date, appId: AppId | undefined): RemovalStep[] {
  const names = { calls: "calls", leftOut: "counts of calls that were not recorded" };
  if (appId === undefined) {
    return [
      olderRows(db, { name: names.calls, table: "calls", time: "ended_at", before }),
      olderRows(db, { name: names.leftOut, table: "calls_left_out", time: "at", before }),
    ];
  }
  return [
    rowsWhere(db, {
      name: names.calls,
      table: "calls",
      which: isOldCall(appId, before),
    }),
    rowsWhere(db, {
      name: names.leftOut,
      table: "calls_left_out",
      which: isOldLeftOut(appId, before),
    }),
  ];
}
