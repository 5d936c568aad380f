// Queries that add builds and end them. The caller that adds a build holds the lock on the app's
// row, which orders the numbers of its builds.
import { sql } from "kysely";
import type { BuildState } from "@slipway/contract/words.ts";
import type { BuildRef, NewBuild } from "#apps/build-receiver.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, BuildId, ProjectId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { buildStatesBefore } from "./build-states.ts";

/** A build as it is received. */
type NewBuildRow = {
  readonly id: BuildId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly number: number;
  readonly cause: NewBuild["cause"];
  /** Why the build waits; null: it does not wait. */
  readonly reason: string | null;
  readonly request: unknown;
  readonly configToml: string | null;
  /** The settings that an earlier build arrived at; null: the build resolves them itself. */
  readonly settings: object | null;
  readonly commit: string | null | undefined;
  readonly message: string | null | undefined;
  readonly author: string | null | undefined;
  readonly branch: string | null | undefined;
  /** The id of the upload with the files; null: they come from the repository. */
  readonly upload: string | null;
  readonly awaitsUpload: boolean;
  readonly keepsArtifact: boolean;
  readonly by: NewBuild["by"];
};

/** Adds the build, status `pending`. */
export async function insertBuild(tx: Tx, build: NewBuildRow): Promise<void> {
  await tx
    .insertInto("builds")
    .values({
      id: build.id,
      project_id: build.projectId,
      app_id: build.appId,
      number: build.number,
      cause: build.cause,
      status: "pending",
      reason: build.reason,
      request: toJson(build.request as object),
      config_toml: build.configToml,
      settings: build.settings === null ? null : toJson(build.settings),
      commit_sha: build.commit,
      commit_message: build.message,
      commit_author: build.author,
      branch: build.branch,
      upload_id: build.upload,
      awaits_upload: build.awaitsUpload,
      keeps_artifact: build.keepsArtifact,
      created_by: toJson(build.by),
      created_at: sql<Date>`clock_timestamp()`,
    })
    .execute();
}

/** Adds an upload whose files are still to come. */
export async function insertCodeUpload(
  tx: Tx,
  upload: {
    readonly id: string;
    readonly projectId: ProjectId;
    readonly appId: AppId;
    readonly keyHash: Buffer;
  },
): Promise<void> {
  const { id, projectId, appId, keyHash } = upload;
  await tx
    .insertInto("uploads")
    .values({ id, project_id: projectId, app_id: appId, key_hash: keyHash })
    .execute();
}

/** The number of the app's latest build; 0: it has none. */
export async function latestNumber(tx: Tx, appId: AppId): Promise<number> {
  const { number } = await tx
    .selectFrom("builds")
    .select((build) => build.fn.coalesce(build.fn.max("number"), sql<number>`0`).as("number"))
    .where("app_id", "=", appId)
    .executeTakeFirstOrThrow();
  return number;
}

/** Locks the build's row. Throws `Fault("not_found")`. */
export async function lockBuild(tx: Tx, { projectId, appId, buildId }: BuildRef) {
  const build = await tx
    .selectFrom("builds")
    .selectAll()
    .where("app_id", "=", appId)
    .where("project_id", "=", projectId)
    .where("id", "=", buildId)
    .forUpdate()
    .executeTakeFirst();
  if (build === undefined)
    throw new Fault("not_found", `There is no build ${buildId} of this app.`);
  return build;
}

/** The app's builds that have not ended and whose files are there, the oldest first. */
export async function unfinishedBuilds(tx: Tx, appId: AppId) {
  return await tx
    .selectFrom("builds")
    .select(["id", "number"])
    .where("app_id", "=", appId)
    .where("ended_at", "is", null)
    .where("awaits_upload", "=", false)
    .orderBy("number")
    .execute();
}

/** Locks the app's builds that wait for their files. */
export async function lockWaitingForFiles(tx: Tx, appId: AppId) {
  return await tx
    .selectFrom("builds")
    .select("id")
    .where("app_id", "=", appId)
    .where("awaits_upload", "=", true)
    .where("ended_at", "is", null)
    .forUpdate()
    .execute();
}

/** Unfinished builds of an app that have one cause and are in one of the states. */
export type UnfinishedBuilds = {
  readonly appId: AppId;
  readonly cause: NewBuild["cause"];
  readonly states: readonly BuildState[];
  /** True: only the builds that keep an artifact, and build none. */
  readonly isArtifactKept: boolean;
};

/** Locks these builds, in the order of their numbers. */
export async function lockUnfinished(tx: Tx, unfinished: UnfinishedBuilds) {
  let builds = tx
    .selectFrom("builds")
    .select("id")
    .where("app_id", "=", unfinished.appId)
    .where("cause", "=", unfinished.cause)
    .where("ended_at", "is", null)
    .where("cancel_requested_at", "is", null)
    .where("status", "in", unfinished.states);
  if (unfinished.isArtifactKept) builds = builds.where("keeps_artifact", "=", true);
  return await builds.orderBy("number").forUpdate().execute();
}

/** Ends a build that is still pending; false: it is no longer pending. */
export async function cancelPending(tx: Tx, buildId: BuildId, reason: string): Promise<boolean> {
  const cancelled = await tx
    .updateTable("builds")
    .set({
      status: "cancelled",
      reason,
      cancel_requested_at: sql<Date>`clock_timestamp()`,
      ended_at: sql<Date>`clock_timestamp()`,
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where("id", "=", buildId)
    .where("status", "=", "pending")
    .returning("status")
    .executeTakeFirst();
  return cancelled !== undefined;
}

/** Asks the worker of a running build to end it. */
export async function requestEnd(tx: Tx, buildId: BuildId, reason: string | null): Promise<void> {
  await tx
    .updateTable("builds")
    .set({
      cancel_requested_at: sql<Date>`coalesce(cancel_requested_at, clock_timestamp())`,
      cancel_reason: reason,
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where("id", "=", buildId)
    .where("status", "in", buildStatesBefore("cancelled"))
    .execute();
}
