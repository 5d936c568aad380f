// Removes what the scheduler no longer needs: old measurements of apps, and the rows of replicas
// that ended so long ago that no list and no chart names them.
import { daysAgo, startRetention, type RemovalStep } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import { stepsByApp, type DaysOfProjects } from "#store/steps-by-app.ts";
import { stoppedReplicasStep } from "./replica-store.ts";
import { chartDays, useRemovalSteps } from "./use-history-store.ts";

/** The settings of retention: how long runs and calls are listed, with their replicas. */
export type SchedulerRetentionSettings = {
  readonly runRetentionDays: number;
  readonly callRetentionDays: number;
  /** The days that the plans of projects set instead of `callRetentionDays`. */
  readonly callDaysOf: DaysOfProjects;
};

/**
 * How much longer the rows of replicas are kept than the runs, calls and charts that name them. A
 * replica may stop before its last run ends: the run then waits for another replica, for half a day
 * at most.
 */
const spareDays = 1;

/** Removes old rows while the platform runs. */
export function startSchedulerRetention(
  settings: SchedulerRetentionSettings,
  parts: Foundation,
): void {
  const { db, clock, log, lifecycle } = parts;
  const steps = () => schedulerRetention({ db, clock, ...settings });
  startRetention({ name: "retention of replicas and uses", steps, clock, log, lifecycle });
}

/** The steps of one turn. */
export async function* schedulerRetention(
  options: SchedulerRetentionSettings & Pick<Foundation, "db" | "clock">,
): AsyncGenerator<RemovalStep> {
  const { db, clock, runRetentionDays, callRetentionDays, callDaysOf } = options;
  yield* useRemovalSteps(db, (days) => daysAgo(clock, days));
  yield* stepsByApp(db, {
    days: callRetentionDays,
    daysOf: callDaysOf,
    stepsOf: (callDays, appId) => {
      const days = Math.max(callDays, runRetentionDays, chartDays) + spareDays;
      return [stoppedReplicasStep(db, daysAgo(clock, days), appId)];
    },
  });
}
