// Queries of uploads: the files of builds that come from no repository.
import { sql } from "kysely";
import type { BuildState } from "@slipway/contract/words.ts";
import type { BuildRef } from "#apps/build-receiver.ts";
import type { AppId, AppKey, BuildId, ProjectId } from "#lib/ids.ts";
import { readRow, type Db, type Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";

/** For how many hours after its creation the address of an upload takes files. */
export const uploadHours = 3;

/** An upload, and the first build that uses it: later builds may use the same upload. */
export type UploadRow = AppKey & {
  readonly id: string;
  /** Null: the upload is not complete. */
  readonly sizeBytes: number | null;
  /** True when the upload's time is over and it is not complete. */
  readonly isExpired: boolean;
  readonly buildId: BuildId;
  readonly buildStatus: BuildState;
};

/** The upload whose address has this key; undefined when there is none. No locks. */
export async function findUpload(db: Db, keyHash: Buffer): Promise<UploadRow | undefined> {
  return await readRow<UploadRow>(db)`
    select upload.id, upload.project_id as "projectId", upload.app_id as "appId", upload.size_bytes as "sizeBytes",
           upload.completed_at is null
             and upload.created_at < clock_timestamp() - make_interval(hours => ${uploadHours}) as "isExpired",
           build.id as "buildId", build.status as "buildStatus"
      from uploads upload join builds build on build.upload_id = upload.id
     where upload.key_hash = ${keyHash} order by build.number limit 1`;
}

/**
 * The upload of a build, with `uploadId` null when the build's files come from a repository;
 * undefined when the app has no such build. No locks.
 */
export async function findUploadOf(db: Db, { projectId, appId, buildId }: BuildRef) {
  return await db
    .selectFrom("builds")
    .leftJoin("uploads", "uploads.id", "builds.upload_id")
    .select(["builds.upload_id as uploadId", "builds.commit_sha as commit"])
    .select((condition) => [
      condition("uploads.completed_at", "is not", null).as("isComplete"),
      condition("uploads.removed_at", "is not", null).as("isRemoved"),
    ])
    .where("builds.id", "=", buildId)
    .where("builds.app_id", "=", appId)
    .where("builds.project_id", "=", projectId)
    .executeTakeFirst();
}

/**
 * Records that the files are stored and lets the build begin; false when the build has ended or the
 * files were recorded before.
 */
export async function completeUpload(
  db: Db,
  upload: { readonly id: string; readonly bytes: number },
): Promise<boolean> {
  return await db.transaction().execute(async (tx) => {
    const build = await tx
      .updateTable("builds")
      .set({ awaits_upload: false, reason: null, updated_at: sql<Date>`clock_timestamp()` })
      .where("upload_id", "=", upload.id)
      .where("awaits_upload", "=", true)
      .where("status", "=", "pending")
      .returning("id")
      .executeTakeFirst();
    if (build === undefined) return false;
    await tx
      .updateTable("uploads")
      .set({ completed_at: sql<Date>`clock_timestamp()`, size_bytes: upload.bytes })
      .where("id", "=", upload.id)
      .execute();
    await notify(tx, "builds", build.id);
    return true;
  });
}

/**
 * The ids of a project's uploads that are not complete or whose builds have not ended. Takes no
 * locks.
 */
export async function waitingUploads(db: Db, projectId: ProjectId): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from uploads where project_id = ${projectId} and removed_at is null and (completed_at is null or exists
      (select from builds where builds.upload_id = uploads.id and builds.ended_at is null))`.execute(
    db,
  );
  return rows.map(({ id }) => id);
}

/**
 * The id of the newest complete upload of an app whose files are kept; undefined when there is
 * none. Locks the row, so that the files stay until the transaction ends.
 */
export async function latestUpload(tx: Tx, appId: AppId): Promise<string | undefined> {
  const row = await tx
    .selectFrom("uploads")
    .select("id")
    .where("app_id", "=", appId)
    .where("completed_at", "is not", null)
    .where("removed_at", "is", null)
    .orderBy("created_at", "desc")
    .limit(1)
    .forShare()
    .executeTakeFirst();
  return row?.id;
}

/**
 * True when the files of the upload are kept, at least until the transaction ends. Locks its row.
 */
export async function isUploadKept(tx: Tx, id: string): Promise<boolean> {
  const row = await tx
    .selectFrom("uploads")
    .select("removed_at")
    .where("id", "=", id)
    .forShare()
    .executeTakeFirst();
  return row !== undefined && row.removed_at === null;
}

/**
 * Gives up all uploads except these: the newest complete one of each app, the uploads of unfinished
 * builds, and the uploads of releases whose artifacts are kept. Returns the uploads whose files are
 * kept. Locks the rows that it gives up; a transaction that adds a build of an upload locks the
 * row of the upload first.
 */
export async function giveUpUploads(db: Db): Promise<readonly string[]> {
  await db.transaction().execute(async (tx) => {
    const { rows } = await sql<{
      id: string;
    }>`select id from uploads where ${isUnused} order by id for update`.execute(tx);
    const ids = rows.map(({ id }) => id);
    // The update checks the condition again: builds may have been added before the rows were
    // locked.
    await sql`update uploads set removed_at = clock_timestamp() where id = any(${ids}) and ${isUnused}`.execute(
      tx,
    );
  });
  const rows = await db
    .selectFrom("uploads")
    .select("id")
    .where("removed_at", "is", null)
    .execute();
  return rows.map(({ id }) => id);
}

/**
 * The condition for giving up a row of `uploads`: neither an unfinished build nor a release with a
 * kept artifact needs the upload. In addition, the upload is not complete, or its app is deleted,
 * or a newer complete upload of the app is kept.
 */
const isUnused = sql`
  removed_at is null
  and not exists (select from builds left join releases on releases.build_id = builds.id
                   where builds.upload_id = uploads.id and (builds.ended_at is null or releases.collected_at is null
                         and releases.id is not null))
  and (completed_at is null or exists (select from apps where apps.id = app_id and deleting_at is not null)
       or exists (select from uploads newer where newer.app_id = uploads.app_id and newer.completed_at is not null
                     and newer.removed_at is null and newer.created_at > uploads.created_at))`;
