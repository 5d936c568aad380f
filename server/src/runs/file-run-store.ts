// Queries of runs that wait for the build of their files. Until their build has ended, their due
// time is infinite, so that nothing claims them.
import { sql } from "kysely";
import type { BuildRef } from "#apps/build-receiver.ts";
import type { AppId, AppKey, BuildId, ReleaseId, RunId } from "#lib/ids.ts";
import { changeOne, readRow, readRows, type Db, type Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";

/** A run, its build and the app's live release. */
export type WaitingRun = AppKey & {
  readonly runId: RunId;
  /** True while the run is not due, because it has not been released to begin. */
  readonly isWaiting: boolean;
  /** The build of the run's files; null: it does not exist. */
  readonly build: {
    readonly id: BuildId;
    readonly status: string;
    readonly reason: string | null;
  } | null;
  /** The release of that build; null: it has made none. */
  readonly releaseId: ReleaseId | null;
  readonly liveReleaseId: ReleaseId | null;
};

/** How many runs `readBuiltRuns` returns at most; the next turn gets the others. */
const batchMax = 500;

/** Adds a run that waits for the build; it is accepted once `tx` is committed. */
export async function addWaitingRun(
  tx: Tx,
  { projectId, appId, buildId }: BuildRef,
  run: {
    readonly runId: RunId;
    /** The path that lists show as the function. */
    readonly shownPath: string;
    /** The path that the replica is asked for. */
    readonly target: string;
    readonly body: Buffer;
    readonly clientAddress: string;
  },
): Promise<void> {
  const { runId, shownPath, target, body, clientAddress } = run;
  await tx
    .insertInto("runs")
    .values({
      id: runId,
      project_id: projectId,
      app_id: appId,
      build_id: buildId,
      state: "pending",
      method: "POST",
      path: shownPath,
      client_address: clientAddress,
      // A file runs once, even if it fails.
      retries_max: 0,
      due_at: sql<Date>`'infinity'`,
    })
    .execute();
  // The header lines of the call that the replica gets.
  const lines = "Host: localhost\r\nContent-Type: application/json\r\n";
  await tx.insertInto("run_requests").values({ run_id: runId, target, lines, body }).execute();
}

/**
 * An unfinished file run of the app, or undefined. Runs whose files have not arrived do not count.
 * No locks.
 */
export async function readUnfinishedFileRun(tx: Tx, appId: AppId): Promise<RunId | undefined> {
  const { rows } = await sql<{ id: RunId }>`
    select runs.id from runs left join builds on builds.id = runs.build_id
     where runs.app_id = ${appId} and runs.build_id is not null and runs.ended_at is null
       and not coalesce(builds.awaits_upload and builds.ended_at is null, false) limit 1`.execute(
    tx,
  );
  return rows[0]?.id;
}

/** The build that a run waits for; undefined: none. Locks the row of the build. */
export async function lockAwaitedBuild(tx: Tx, runId: RunId): Promise<BuildRef | undefined> {
  return await readRow<BuildRef>(tx)`
    select builds.project_id as "projectId", builds.app_id as "appId", builds.id as "buildId"
      from runs join builds on builds.id = runs.build_id
     where runs.id = ${runId} and builds.ended_at is null for update of builds`;
}

/**
 * Runs that have not begun although their builds have ended or are gone; runs that are not due come
 * first. No locks.
 */
export async function readBuiltRuns(db: Db): Promise<WaitingRun[]> {
  return await readRows<WaitingRun>(db)`
    select runs.id as "runId", runs.project_id as "projectId", runs.app_id as "appId", runs.due_at = 'infinity' as "isWaiting",
           case when builds.id is not null
             then json_build_object('id', builds.id, 'status', builds.status, 'reason', builds.reason) end as build,
           releases.id as "releaseId", apps.live_release_id as "liveReleaseId"
      from runs join apps on apps.id = runs.app_id and apps.deleting_at is null
      left join builds on builds.id = runs.build_id
      left join releases on releases.build_id = builds.id
     where runs.build_id is not null and runs.ended_at is null and runs.state = 'pending'
       and (builds.id is null or builds.ended_at is not null)
     order by runs.due_at desc limit ${batchMax}`;
}

/** Lets the run begin on the release. */
export async function releaseRun(db: Db, { runId, appId, releaseId }: WaitingRun): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const isReleased = await changeOne(tx)`
      update runs set due_at = clock_timestamp(), release_id = ${releaseId}
       where id = ${runId} and state = 'pending' and due_at = 'infinity'`;
    if (isReleased) await notify(tx, "runs", appId);
  });
}

/**
 * Ends a run that no platform holds. `reason` is a sentence. The new epoch prevents writes of
 * earlier holders.
 */
export async function failWaitingRun(db: Db, runId: RunId, reason: string): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const hasEnded = await changeOne(tx)`
      update runs set state = 'failure', reason = ${reason}, ended_at = clock_timestamp(), lease_epoch = lease_epoch + 1,
             request_deleted_at = clock_timestamp()
       where id = ${runId} and state = 'pending'`;
    if (hasEnded) await tx.deleteFrom("run_requests").where("run_id", "=", runId).execute();
  });
}
