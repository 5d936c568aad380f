// Opens the logs of builds and apps, and the retention of their lines.
import type { AppId, ProjectId } from "#lib/ids.ts";
import { daysAgo, startRetention, type RemovalStep } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import { appsAfter, deleteOldAppLines } from "./app-log-store.ts";
import { AppLogs } from "./app-log.ts";
import { deleteOldBuildLines } from "./build-log-store.ts";
import { BuildLogs } from "./build-log.ts";

/** Opens the logs. `daysOf`: for how many days a project's lines are kept; null: as the settings say for all. */
export function openLogs(
  { logRetentionDays: days }: { readonly logRetentionDays: number },
  parts: Foundation & { readonly daysOf: () => ((projectId: ProjectId) => number) | null },
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

const appsPage = 500;

/** The settings of log retention. */
type LogRetentionOptions = Pick<Foundation, "db" | "clock"> & {
  /** For how many days lines are kept. */
  readonly days: number;
  /** For how many days a project's lines are kept, if that differs between projects; otherwise null. Answers from memory. */
  readonly daysOf?: () => ((projectId: ProjectId) => number) | null;
};

/** The steps of one turn: lines older than the operator, or the plan of their project, wants to keep. */
export async function* logRetention(options: LogRetentionOptions): AsyncGenerator<RemovalStep> {
  const { db, days, daysOf } = options;
  const ofProject = daysOf?.() ?? null;
  if (ofProject === null) return yield* stepsOf(options, days);
  // App by app: a scan of all lines would skip the longer-kept ones again and again.
  for (let after: AppId | null = null; ;) {
    const apps: Awaited<ReturnType<typeof appsAfter>> = await appsAfter(db, { after, limit: appsPage });
    for (const { appId, projectId } of apps) yield* stepsOf(options, ofProject(projectId), appId);
    after = apps.at(-1)?.appId ?? null;
    if (apps.length < appsPage) return;
  }
}

function stepsOf({ db, clock }: LogRetentionOptions, days: number, appId?: AppId): RemovalStep[] {
  const which = { before: daysAgo(clock, days), ...(appId === undefined ? {} : { appId }) };
  return [
    { name: "lines of apps", remove: (limit) => deleteOldAppLines(db, { ...which, limit }) },
    { name: "lines of builds", remove: (limit) => deleteOldBuildLines(db, { ...which, limit }) },
  ];
}
