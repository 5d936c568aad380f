// Removes lines that are older than the operator wants to keep, in bounded steps, so that it never holds a lock or fills
// the write-ahead log for long. A loop: what one turn leaves, the next one finds.
import type { Clock } from "#lib/clock.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { deleteOldAppLines } from "./app-log-store.ts";
import { deleteOldBuildLines } from "./build-log-store.ts";
import { appsAfter } from "./retention-store.ts";

const dayMs = 86_400_000;
/** Old lines may stay an hour longer. */
const intervalMs = 3_600_000;
const batchMax = 5_000;
/** Steps of one turn; at 5 000 lines each more than an hour's worth of a busy platform, and two for each of many apps. */
const stepsMax = 50_000;

/** What retention needs. */
export type RetentionOptions = {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** For how many days lines are kept. */
  readonly days: number;
  /** For how many days a project's lines are kept, where that is not the same for all; null: it is. Answers from memory. */
  readonly daysOf?: () => ((projectId: ProjectId) => number) | null;
};

const appsPage = 500;

/** The loop that removes old lines of builds and apps; start and stop it with the platform. */
export function retentionLoop(options: RetentionOptions): Loop {
  const { clock, log } = options;
  const turn = (signal: AbortSignal): Promise<void> => removeOldLines(options, signal);
  return new Loop({ name: "log retention", intervalMs, waitsForClock: true, clock, log, turn });
}

/** One turn: removes what is too old, until nothing is left, the bound is reached or `signal` is aborted. */
export async function removeOldLines(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  const { db, log, days, daysOf } = options;
  const ofProject = daysOf?.() ?? null;
  const turn: Turn = { ...options, signal, stepsLeft: stepsMax };
  let removed = 0;
  if (ofProject === null) {
    removed = await removeOlder(turn, days);
  } else {
    // App by app: with one look at all lines, those that are kept for longer would be passed over again and again.
    for (let after: AppId | null = null; !signal.aborted && turn.stepsLeft > 0;) {
      const apps: Awaited<ReturnType<typeof appsAfter>> = await appsAfter(db, { after, limit: appsPage });
      for (const { appId, projectId } of apps) removed += await removeOlder(turn, ofProject(projectId), appId);
      after = apps.at(-1)?.appId ?? null;
      if (apps.length < appsPage) break;
    }
  }
  if (removed > 0) log.info({ removed, days: ofProject === null ? days : "by plan" }, "removed old log lines");
}

type Turn = RetentionOptions & { readonly signal: AbortSignal; stepsLeft: number };

async function removeOlder(turn: Turn, days: number, appId?: AppId): Promise<number> {
  const { db, clock, signal } = turn;
  const before = new Date(clock.now() - days * dayMs);
  const which = { before, limit: batchMax, ...(appId === undefined ? {} : { appId }) };
  let removed = 0;
  for (const removeSome of [deleteOldAppLines, deleteOldBuildLines]) {
    for (let isMore = true; isMore && turn.stepsLeft > 0 && !signal.aborted; turn.stepsLeft--) {
      const count = await removeSome(db, which);
      removed += count;
      isMore = count === batchMax;
    }
  }
  return removed;
}
