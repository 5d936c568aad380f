// Queries on apps and, read-only, on their builds and replicas.
import { sql, type Insertable, type Selectable } from "kysely";
import { Fault } from "#lib/fault.ts";
import {
  type AppId,
  type AppKey,
  type BuildId,
  type ProjectId,
  type ReleaseId,
  shownAppId,
} from "#lib/ids.ts";
import { insertNew, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

/** A row of an app. */
export type AppRow = Selectable<Tables["apps"]>;
/** The columns of a build that the API shows. */
export type BuildRow = Awaited<ReturnType<typeof readBuilds>>[number];
export type ReplicaRow = Selectable<Tables["replicas"]>;

/** An app, with the state of its builds. */
export type AppWithState = Awaited<ReturnType<typeof readApps>>[number];
/**
 * All sources of an app's settings; the columns of the release are null when the app has no live
 * release.
 */
export type AppSource = NonNullable<Awaited<ReturnType<typeof readAppSource>>>;

/**
 * Adds an app; false when the project already has one of that name. Waits for a concurrent
 * transaction that adds the same name.
 */
export async function insertApp(tx: Tx, app: Insertable<Tables["apps"]>): Promise<boolean> {
  return await insertNew(tx, "apps", app);
}

/**
 * Locks an app's row; undefined when there is no such app. Before that, locks the app's project
 * against deletion: the deletion of a project locks in the same order. A change of an app takes
 * these locks before it locks builds and releases.
 */
export async function lockApp(tx: Tx, appId: AppId): Promise<AppRow | undefined> {
  const project = tx.selectFrom("apps").select("project_id").where("id", "=", appId);
  await tx.selectFrom("projects").select("id").where("id", "=", project).forKeyShare().execute();
  return await tx
    .selectFrom("apps")
    .selectAll()
    .where("id", "=", appId)
    .forUpdate()
    .executeTakeFirst();
}

/**
 * The live release of an app, with the number of the release that is being rolled out (`rolling`);
 * undefined when no release is live. No locks. Throws `Fault("not_found")` when there is no such
 * app.
 */
export async function readLiveRelease(
  db: Db,
  { projectId, appId }: AppKey,
): Promise<
  { readonly id: ReleaseId; readonly number: number; readonly rolling: number | null } | undefined
> {
  const row = await db
    .selectFrom("apps")
    .leftJoin("releases", "releases.id", "apps.live_release_id")
    .leftJoin("releases as rolling", (join) =>
      join.onRef("rolling.app_id", "=", "apps.id").on("rolling.state", "=", "rolling_out"),
    )
    .select(["releases.id", "releases.number", "rolling.number as rolling"])
    .where("apps.id", "=", appId)
    .where("apps.project_id", "=", projectId)
    .executeTakeFirst();
  if (row === undefined) throw noSuchApp(appId);
  const { id, number, rolling } = row;
  return id === null || number === null ? undefined : { id, number, rolling };
}

/**
 * Keeps pushes from being deployed; `reason` is a sentence. The caller holds the lock on the app's
 * row.
 */
export async function pauseAutoDeploy(tx: Tx, appId: AppId, reason: string): Promise<void> {
  await tx
    .updateTable("apps")
    .set({ auto_deploy_paused_at: sql<Date>`clock_timestamp()`, auto_deploy_paused_reason: reason })
    .where("id", "=", appId)
    .execute();
}

/**
 * Like `lockApp`, for a change of the app. Throws `Fault("not_found")`, and `Fault("conflict")`
 * when the app was deleted just now.
 */
export async function lockAppForChange(tx: Tx, { projectId, appId }: AppKey): Promise<AppRow> {
  const app = await lockApp(tx, appId);
  if (app?.project_id !== projectId) throw noSuchApp(appId);
  if (app.deleting_at !== null)
    throw new Fault("conflict", "The app was deleted just now, by another request.");
  return app;
}

/**
 * Lets pushes be deployed again; false when they were not paused. The caller holds the lock on the
 * app's row.
 */
export async function resumeAutoDeploy(tx: Tx, appId: AppId): Promise<boolean> {
  const resumed = await tx
    .updateTable("apps")
    .set({ auto_deploy_paused_at: null, auto_deploy_paused_reason: null })
    .where("id", "=", appId)
    .where("auto_deploy_paused_at", "is not", null)
    .returning("id")
    .executeTakeFirst();
  return resumed !== undefined;
}

/** Turns an app that runs files into a deployed app. The caller holds the lock on the app's row. */
export async function endFileRuns(tx: Tx, appId: AppId): Promise<void> {
  await tx.updateTable("apps").set({ runs_files: false }).where("id", "=", appId).execute();
}

/** Reads an app's row, without a lock. */
export async function readApp(db: Db, appId: AppId): Promise<AppRow | undefined> {
  return await db.selectFrom("apps").selectAll().where("id", "=", appId).executeTakeFirst();
}

/** The id of the project's app with this name that is not deleted. No locks. */
export async function findApp(
  db: Db,
  projectId: ProjectId,
  name: string,
): Promise<AppId | undefined> {
  const apps = db
    .selectFrom("apps")
    .select("id")
    .where("project_id", "=", projectId)
    .where("name", "=", name);
  return (await apps.where("deleting_at", "is", null).executeTakeFirst())?.id;
}

/**
 * The ids of all apps with this name, including deleted ones. No locks: when two apps get one name
 * at the same time, `insertApp` adds only one of them.
 */
export async function idsOfName(tx: Tx, projectId: ProjectId, name: string): Promise<AppId[]> {
  const apps = tx
    .selectFrom("apps")
    .select("id")
    .where("project_id", "=", projectId)
    .where("name", "=", name);
  return (await apps.execute()).map(({ id }) => id);
}

/** True when a person has stopped the app. No locks. */
export async function isAppStopped(db: Db, appId: AppId): Promise<boolean> {
  const app = await db
    .selectFrom("apps")
    .select("stopped_at")
    .where("id", "=", appId)
    .executeTakeFirst();
  return app !== undefined && app.stopped_at !== null;
}

/** True when the project has the app, and it is not deleted. */
export async function hasApp(db: Db, projectId: ProjectId, appId: AppId): Promise<boolean> {
  const row = await db
    .selectFrom("apps")
    .select("id")
    .where("id", "=", appId)
    .where("project_id", "=", projectId)
    .where("deleting_at", "is", null)
    .executeTakeFirst();
  return row !== undefined;
}

/** Returns which of these ids belong to apps that are not being deleted. */
export async function readExisting(db: Db, appIds: readonly string[]): Promise<readonly AppId[]> {
  const rows = await db
    .selectFrom("apps")
    .select("id")
    .where((where) => where("id", "=", where.fn.any(where.val([...appIds] as AppId[]))))
    .where("deleting_at", "is", null)
    .execute();
  return rows.map((row) => row.id);
}

/** Apps of a project, ordered by name, at most `limit`; with `appId`, only that app. No locks. */
export async function readApps(
  db: Db,
  {
    projectId,
    appId,
    limit,
  }: { readonly projectId: ProjectId; readonly appId?: AppId; readonly limit: number },
) {
  let query = appsWithBuilds(db)
    .select(["apps.id", "apps.name", "apps.created_at", "apps.updated_at", "apps.stopped_at"])
    .select([
      "releases.build_id as live_build_id",
      "latest.id as latest_build_id",
      "latest.status as latest_status",
    ])
    .select(["latest.reason as latest_reason", "latest.ended_at as latest_ended_at"])
    .select(["releases.number as live_release"])
    .select(["apps.auto_deploy_paused_at", "apps.auto_deploy_paused_reason"])
    .where("apps.project_id", "=", projectId)
    .where("apps.deleting_at", "is", null);
  if (appId !== undefined) query = query.where("apps.id", "=", appId);
  return await query.orderBy("apps.name").limit(limit).execute();
}

/** The sources of an app's settings. No locks. */
export async function readAppSource(db: Db, appId: AppId) {
  return await appsWithBuilds(db)
    .select(["apps.request", "apps.config_toml"])
    .select([
      "releases.settings",
      "releases.origins",
      "releases.base_settings",
      "latest.settings as latest_settings",
    ])
    .where("apps.id", "=", appId)
    .executeTakeFirst();
}

/** A query of apps, joined with their live release (`releases`) and latest build (`latest`). */
export function appsWithBuilds(db: Db) {
  return db
    .selectFrom("apps")
    .leftJoin("releases", "releases.id", "apps.live_release_id")
    .leftJoinLateral(
      (join) =>
        join
          .selectFrom("builds")
          .select([
            "builds.id",
            "builds.status",
            "builds.reason",
            "builds.ended_at",
            "builds.settings",
          ])
          .whereRef("builds.app_id", "=", "apps.id")
          .orderBy("builds.number", "desc")
          .limit(1)
          .as("latest"),
      (on) => on.onTrue(),
    );
}

/** Builds of an app, newest first, at most `limit`; with `buildId`, only that build. No locks. */
export async function readBuilds(
  db: Db,
  range: AppKey & { readonly buildId?: BuildId; readonly limit: number },
) {
  let query = db
    .selectFrom("builds")
    .select([
      "id",
      "app_id as appId",
      "number",
      "cause",
      "status",
      "reason",
      "commit_sha as commit",
    ])
    .select(["commit_message as commitMessage", "commit_author as commitAuthor", "branch"])
    .select([
      "created_at as createdAt",
      "updated_at as updatedAt",
      "started_at as startedAt",
      "ended_at as endedAt",
    ])
    .where("app_id", "=", range.appId)
    .where("project_id", "=", range.projectId);
  if (range.buildId !== undefined) query = query.where("id", "=", range.buildId);
  return await query.orderBy("number", "desc").limit(range.limit).execute();
}

/**
 * Replicas that have not stopped, oldest first: at most `limit` of one app, or of all apps of a
 * project. No locks.
 */
export async function readReplicas(
  db: Db,
  scope: { readonly appId: AppId } | { readonly projectId: ProjectId },
  limit: number,
): Promise<ReplicaRow[]> {
  const alive = db.selectFrom("replicas").selectAll().where("stopped_at", "is", null);
  const query =
    "appId" in scope
      ? alive.where("app_id", "=", scope.appId)
      : alive.where("project_id", "=", scope.projectId);
  return await query.orderBy("created_at").orderBy("id").limit(limit).execute();
}

/** Reads the stopped replicas of an app, the newest first. */
export async function readEndedReplicas(
  db: Db,
  appId: AppId,
  limit: number,
): Promise<ReplicaRow[]> {
  const ended = db
    .selectFrom("replicas")
    .selectAll()
    .where("app_id", "=", appId)
    .where("stopped_at", "is not", null);
  return await ended.orderBy("created_at", "desc").orderBy("id", "desc").limit(limit).execute();
}

/** Increases the count of restarts, upon which the scheduler replaces the app's replicas. */
export async function countRestart(tx: Tx, appId: AppId): Promise<void> {
  await tx
    .updateTable("apps")
    .set({ restarts: sql<number>`restarts + 1` })
    .where("id", "=", appId)
    .execute();
}

/** Notes that the app is stopped, or that it was started again. */
export async function setStopped(tx: Tx, appId: AppId, isStopped: boolean): Promise<void> {
  const now = sql<Date>`clock_timestamp()`;
  await tx
    .updateTable("apps")
    .set({ stopped_at: isStopped ? now : null, updated_at: now })
    .where("id", "=", appId)
    .execute();
}

/** The app of a build; null: the project has no such build. */
export async function appOfBuild(
  db: Db,
  projectId: ProjectId,
  buildId: BuildId,
): Promise<AppId | null> {
  const build = await db
    .selectFrom("builds")
    .select("app_id")
    .where("id", "=", buildId)
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  return build?.app_id ?? null;
}

/**
 * The fault for a missing app and for an app of another project: callers cannot tell them apart.
 */
export function noSuchApp(appId: string): Fault {
  return new Fault("not_found", `The project has no app ${shownAppId(appId)}.`);
}
