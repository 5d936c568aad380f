// Opens the logs of builds and apps, and the retention of their lines.
import type { AppId } from "#lib/ids.ts";
import { daysAgo, startRetention, type RemovalStep } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import { stepsByApp, type DaysOfProjects } from "#store/steps-by-app.ts";
import { deleteOldAppLines } from "./app-log-store.ts";
import { AppLogs } from "./app-log.ts";
import { deleteOldBuildLines } from "./build-log-store.ts";
import { BuildLogs } from "./build-log.ts";

/**
 * Opens the logs. `daysOf` returns for how many days a project's lines are kept; if it returns
 * null, lines of all projects are kept for `logRetentionDays`.
 */
export function openLogs(
  { logRetentionDays: days }: { readonly logRetentionDays: number },
  parts: Foundation & { readonly daysOf: DaysOfProjects },
) {
  const { db, notifications, clock, log, lifecycle, daysOf } = parts;
  const buildLogs = new BuildLogs({ db, notifications, clock, log });
  lifecycle.onClose("build logs", () => buildLogs.flush());
  const appLogs = new AppLogs({ db, notifications, clock });
  lifecycle.onClose("app logs", () => appLogs.flush());
  const steps = () => logRetention({ db, clock, days, daysOf });
  startRetention({ name: "log retention", steps, clock, log, lifecycle });
  return { buildLogs, appLogs };
}

/** The settings of log retention. */
type LogRetentionOptions = Pick<Foundation, "db" | "clock"> & {
  /** For how many days lines are kept where `daysOf` returns null. */
  readonly days: number;
  readonly daysOf: DaysOfProjects;
};

/**
 * The steps of one turn of retention. They delete lines that are older than the operator, or the
 * plan of their project, allows.
 */
export function logRetention(options: LogRetentionOptions): AsyncGenerator<RemovalStep> {
  const { db, days, daysOf } = options;
  return stepsByApp(db, {
    days,
    daysOf,
    stepsOf: (daysKept, appId) => stepsOf(options, daysKept, appId),
  });
}

function stepsOf({ db, clock }: LogRetentionOptions, days: number, appId?: AppId): RemovalStep[] {
  const rows = { before: daysAgo(clock, days), ...(appId === undefined ? {} : { appId }) };
  return [
    { name: "lines of apps", remove: (limit) => deleteOldAppLines(db, { ...rows, limit }) },
    { name: "lines of builds", remove: (limit) => deleteOldBuildLines(db, { ...rows, limit }) },
  ];
}
