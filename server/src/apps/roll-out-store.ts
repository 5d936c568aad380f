// Queries on roll-outs. An app has at most one row, that of its latest roll-out. Every change of a
// roll-out holds the lock on the app's row, so that changes happen one after the other.
import { sql } from "kysely";
import type { AppId, ProjectId, ReleaseId } from "#lib/ids.ts";
import { putRows, type Db, type Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { lockApp } from "./app-store.ts";
import { endRolledOut, makeLive, type ReleaseEnd } from "./release-store.ts";

/** A roll-out that has not ended. */
export type CurrentRollOut = NonNullable<Awaited<ReturnType<typeof lockRollOut>>>;

/** The latest roll-out of an app, with the numbers of its releases. */
export type RollOutRow = NonNullable<Awaited<ReturnType<typeof readRollOut>>>;

/** The share of the first step, and by how much each further step increases it, in percent. */
export const stepShare = 20;

/** The duration of one step in milliseconds: each step takes `stepShare` percent of the time. */
export function stepMs(durationSeconds: number): number {
  return (durationSeconds * 1000 * stepShare) / 100;
}

/**
 * Lets a release take calls: in steps when another release is live and the duration is not 0, else
 * all at once. Ends an earlier roll-out of the app. The caller holds the lock on the app's row.
 */
export async function beginRelease(
  tx: Tx,
  promotion: {
    readonly appId: AppId;
    readonly releaseId: ReleaseId;
    readonly liveReleaseId: ReleaseId | null;
    /** The duration of the whole roll-out. */
    readonly durationSeconds: number;
    readonly nowMs: number;
  },
): Promise<void> {
  const { appId, releaseId, liveReleaseId, durationSeconds, nowMs } = promotion;
  if (durationSeconds === 0 || liveReleaseId === null || liveReleaseId === releaseId) {
    const endOfOther: ReleaseEnd = { state: "replaced", reason: "A newer release took its place." };
    return await makeLive(tx, { appId, releaseId, endOfOther });
  }
  await endRolledOut(tx, appId);
  await tx
    .updateTable("releases")
    .set({ state: "rolling_out", promoted_at: sql<Date>`coalesce(promoted_at, clock_timestamp())` })
    .set({ end_reason: null, ended_at: null })
    .where("id", "=", releaseId)
    .execute();
  const row = {
    release_id: releaseId,
    from_release_id: liveReleaseId,
    state: "running" as const,
    duration_seconds: durationSeconds,
    share: stepShare,
    started_at: new Date(nowMs),
    step_ends_at: new Date(nowMs + stepMs(durationSeconds)),
    step_left_ms: null,
    is_worse: false,
    reason: null,
    ended_at: null,
  };
  await putRows(tx, "roll_outs", ["app_id"], { app_id: appId, ...row });
  await notify(tx, "apps", appId);
}

/**
 * Locks the app and returns its roll-out; null: none is under way; undefined: there is no such app.
 */
export async function lockRollOut(
  tx: Tx,
  { appId, projectId }: { readonly appId: AppId; readonly projectId?: ProjectId },
) {
  const app = await lockApp(tx, appId);
  if (app === undefined || app.deleting_at !== null) return undefined;
  if (projectId !== undefined && app.project_id !== projectId) return undefined;
  const row = await tx
    .selectFrom("roll_outs")
    .innerJoin("releases", "releases.id", "roll_outs.release_id")
    .select([
      "release_id as releaseId",
      "releases.number",
      "roll_outs.state",
      "duration_seconds as durationSeconds",
    ])
    .select(["share", "step_ends_at as stepEndsAt", "step_left_ms as stepLeftMs"])
    .where("roll_outs.app_id", "=", appId)
    .where("roll_outs.ended_at", "is", null)
    .executeTakeFirst();
  // A roll-out that has not ended is running or paused, which the type does not know.
  if (row === undefined || (row.state !== "running" && row.state !== "paused")) return null;
  const { project_id, name, stopped_at: stoppedAt } = app;
  return {
    ...row,
    state: row.state,
    appId,
    projectId: project_id,
    name,
    isStopped: stoppedAt !== null,
  };
}

/** Changes the roll-out under way. The caller holds the lock on the app's row. */
export async function moveRollOut(
  tx: Tx,
  appId: AppId,
  change: Pick<CurrentRollOut, "state" | "share" | "stepEndsAt" | "stepLeftMs">,
): Promise<void> {
  await tx
    .updateTable("roll_outs")
    .set({ state: change.state, share: change.share })
    .set({ step_ends_at: change.stepEndsAt, step_left_ms: change.stepLeftMs })
    .where("app_id", "=", appId)
    .where("ended_at", "is", null)
    .execute();
  await notify(tx, "apps", appId);
}

/**
 * Takes the new release back: all calls go to the live one again. The caller holds the lock on the
 * app's row.
 */
export async function takeBackRollOut(
  tx: Tx,
  { appId }: Pick<CurrentRollOut, "appId">,
  end: { readonly reason: string; readonly isWorse: boolean },
): Promise<void> {
  const { reason, isWorse } = end;
  await tx
    .updateTable("roll_outs")
    .set({ state: "taken_back", reason, is_worse: isWorse, ...endColumns })
    .where("app_id", "=", appId)
    .where("ended_at", "is", null)
    .execute();
  await endRolledOut(tx, appId, { state: "taken_back", reason });
  await notify(tx, "apps", appId);
}

/**
 * Pauses a roll-out under way; does nothing when there is none. The caller holds the lock on the
 * app's row, and notifies that the app has changed.
 */
export async function pauseRollOut(tx: Tx, appId: AppId): Promise<void> {
  await tx
    .updateTable("roll_outs")
    .set({ state: "paused", step_ends_at: null })
    .set({
      step_left_ms: sql<number>`greatest(0, extract(epoch from step_ends_at - clock_timestamp()) * 1000)`,
    })
    .where("app_id", "=", appId)
    .where("state", "=", "running")
    .execute();
}

/** The latest roll-out of an app, ended or not; undefined when there was none. */
export async function readRollOut(
  db: Db,
  ref: { readonly appId: AppId; readonly projectId: ProjectId },
) {
  return await db
    .selectFrom("roll_outs")
    .innerJoin("apps", "apps.id", "roll_outs.app_id")
    .innerJoin("releases", "releases.id", "roll_outs.release_id")
    .innerJoin("releases as before", "before.id", "roll_outs.from_release_id")
    .select([
      "roll_outs.state",
      "roll_outs.share",
      "roll_outs.duration_seconds",
      "roll_outs.reason",
    ])
    .select([
      "roll_outs.release_id",
      "roll_outs.from_release_id",
      "roll_outs.started_at",
      "roll_outs.step_ends_at",
    ])
    .select(["roll_outs.ended_at", "releases.number", "before.number as from_number"])
    .where("apps.id", "=", ref.appId)
    .where("apps.project_id", "=", ref.projectId)
    .where("apps.deleting_at", "is", null)
    .executeTakeFirst();
}

/** The columns of a roll-out that ends now. */
const endColumns = {
  step_ends_at: null,
  step_left_ms: null,
  ended_at: sql<Date>`clock_timestamp()`,
};
