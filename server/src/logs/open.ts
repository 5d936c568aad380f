// Opens the logs of builds and apps, and the retention of their lines.
import type { ProjectId } from "#lib/ids.ts";
import { startRetention } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import { AppLogs } from "./app-log.ts";
import { BuildLogs } from "./build-log.ts";
import { logRetention } from "./retention.ts";

/** The logs of builds and of apps. */
export type OpenedLogs = { readonly buildLogs: BuildLogs; readonly appLogs: AppLogs };

/** Opens the logs. `daysOf`: for how many days a project's lines are kept; null: as the settings say for all. */
export function openLogs(
  { logRetentionDays: days }: { readonly logRetentionDays: number },
  parts: Foundation & { readonly daysOf: () => ((projectId: ProjectId) => number) | null },
): OpenedLogs {
  const { db, notifications, clock, log, lifecycle, daysOf } = parts;
  const buildLogs = new BuildLogs({ db, notifications, clock, log });
  lifecycle.onClose("build logs", () => buildLogs.flush());
  const appLogs = new AppLogs({ db, notifications, clock });
  lifecycle.onClose("app logs", () => appLogs.flush());
  const steps = () => logRetention({ db, clock, days, daysOf });
  startRetention({ name: "log retention", steps, clock, log, lifecycle });
  return { buildLogs, appLogs };
}
