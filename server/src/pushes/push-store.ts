// Queries of the apps to which people push, of hook addresses, of deliveries of push events, of the
// newest commits of branches, and of the statuses of commits.
import { sql, type Insertable, type RawBuilder, type Selectable } from "kysely";
import { appFields } from "@slipway/contract/app-fields.ts";
import type { GitVerdict } from "@slipway/contract/words.ts";
import { requestedSource } from "#apps/settings.ts";
import { checkFolder } from "#deploy/sources/git-url.ts";
import type { AppId, BuildId, GitDeliveryId, ProjectId } from "#lib/ids.ts";
import { must } from "#lib/assert.ts";
import { putRows, readRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { PushedApp } from "./judge.ts";
import type { StatusState } from "./status-request.ts";

export type HookRow = Selectable<Tables["git_hooks"]>;
export type GitDeliveryRow = Selectable<Tables["git_deliveries"]>;
export type HeadRow = Selectable<Tables["git_heads"]>;
/**
 * The columns of an app that decide about pushes, and the commits of its branch that were seen and
 * built so far.
 */
export type PushedAppRow = Pick<
  Selectable<Tables["apps"]>,
  "id" | "project_id" | "name" | "request" | "stopped_at" | "auto_deploy_paused_reason"
> & {
  /** The branch of the latest build, which is used when the settings name none. */
  readonly usual_branch: string | null;
  /**
   * When a push to the app's branch last arrived at the app's hook; null: the branch has to be
   * polled.
   */
  readonly received_at: Date | null;
  /** The branch of `seen_sha` and `same_sha`. */
  readonly branch: string | null;
  /** The commit that was the branch's newest one at the latest verdict. */
  readonly seen_sha: string | null;
  /** The newest commit of the branch with the same folder as the latest build. */
  readonly same_sha: string | null;
  /** The commit of the latest build that was not cancelled. */
  readonly built_sha: string | null;
  /** Whether a build of the app has not yet found out which commit it builds. */
  readonly is_reading: boolean;
  /**
   * The paths besides `gitPath` from which the latest build took files; null: they are not known.
   */
  readonly shared_paths: readonly string[] | null;
  /** Whether a delivery of the app waits for its verdict. */
  readonly has_waiting: boolean;
  /** Whether the app's project has credentials for git hosts. */
  readonly has_credentials: boolean;
};

/** The maximum number of stored deliveries of an app. A new one removes the oldest. */
const deliveriesMax = 200;

/**
 * Reads an app; undefined: there is none, it has no repository, or it is being deleted. `isLocked`:
 * locks its row.
 */
export async function readPushedApp(
  db: Db,
  appId: AppId,
  { isLocked = false }: { readonly isLocked?: boolean } = {},
): Promise<PushedAppRow | undefined> {
  const [row] = await selectApps(
    db,
    isLocked ? sql`apps.id = ${appId} for update of apps` : sql`apps.id = ${appId}`,
  );
  return row;
}

/** All apps that have a repository and are neither stopped nor being deleted, by id. No locks. */
export async function readPushedApps(db: Db): Promise<PushedAppRow[]> {
  return await selectApps(db, sql`apps.stopped_at is null order by apps.id`);
}

/**
 * Selects apps that have a repository and are not being deleted. `where` may end with an order or a
 * lock. A `commit_sha` with fewer than 40 digits is not the whole id of a commit, so no such id is
 * used.
 */
async function selectApps(db: Db, where: RawBuilder<unknown>): Promise<PushedAppRow[]> {
  return await readRows<PushedAppRow>(db)`
    select apps.id, apps.project_id, apps.name, apps.request, apps.stopped_at, apps.auto_deploy_paused_reason,
           (select settings ->> 'gitBranch' from builds where app_id = apps.id and settings is not null
             order by number desc limit 1) as usual_branch,
           hook.received_at, head.branch, head.seen_sha, head.same_sha,
           (select commit_sha from builds where app_id = apps.id and length(commit_sha) >= 40 and status <> 'cancelled'
             order by number desc limit 1) as built_sha,
           exists (select from builds where app_id = apps.id and ended_at is null and commit_sha is null
             and upload_id is null) as is_reading,
           (select shared_paths from builds where app_id = apps.id and upload_id is null and not keeps_artifact
             and status <> 'cancelled' order by number desc limit 1) as shared_paths,
           exists (select from git_deliveries where app_id = apps.id and verdict = 'waiting') as has_waiting,
           exists (select from git_credentials where project_id = apps.project_id) as has_credentials
      from apps
      left join git_hooks hook on hook.app_id = apps.id
      left join git_heads head on head.app_id = apps.id
     where apps.deleting_at is null and apps.request ->> 'gitRepo' is not null and ${where}`;
}

/** The repositories of a project's apps; those of the newest apps come first. No locks. */
export async function readUsedRepositories(
  db: Db,
  projectId: ProjectId,
  limit: number,
): Promise<string[]> {
  const rows = await readRows<{ repository: string }>(db)`
    select request ->> 'gitRepo' as repository from apps
     where project_id = ${projectId} and deleting_at is null and request ->> 'gitRepo' is not null
     group by 1 order by max(created_at) desc limit ${limit}`;
  return rows.map(({ repository }) => repository);
}

/** The columns from which the settings of an app are read. */
export type PushSettingsRow = Pick<
  PushedAppRow,
  "request" | "usual_branch" | "stopped_at" | "auto_deploy_paused_reason" | "shared_paths"
>;

/**
 * The settings of an app that decide about pushes. What requests to the API have set was validated
 * when it was stored; the usual branch and the shared paths come from the latest builds.
 */
export function pushedApp(row: PushSettingsRow): PushedApp {
  const body = row.request as Readonly<Record<string, unknown>>;
  const { gitRepo, gitBranch, gitPath } = requestedSource(body);
  const isBranchSet = (body["gitBranch"] ?? null) !== null;
  const folder = checkFolder(gitPath);
  return {
    gitRepo: must(gitRepo, "only apps with a repository are selected"),
    gitBranch: isBranchSet ? gitBranch : (row.usual_branch ?? gitBranch),
    gitPath: folder.ok ? folder.value : gitPath,
    sharedPaths: row.shared_paths,
    gitAutoDeploy: (body["gitAutoDeploy"] ?? appFields.gitAutoDeploy.default) === true,
    pausedReason: row.auto_deploy_paused_reason,
    isStopped: row.stopped_at !== null,
  };
}

/** Reads the hook of an app, or the hook with an address; undefined: there is none. No locks. */
export async function readHook(
  db: Db,
  by: "app_id" | "address",
  value: string,
): Promise<HookRow | undefined> {
  return await db.selectFrom("git_hooks").selectAll().where(by, "=", value).executeTakeFirst();
}

/** Adds the hook of an app. If the app has one, that hook keeps its address and gets the secret. */
export async function putHook(
  tx: Tx,
  hook: { readonly appId: AppId; readonly address: string; readonly secretSealed: string },
): Promise<HookRow> {
  return await tx
    .insertInto("git_hooks")
    .values({ app_id: hook.appId, address: hook.address, secret_sealed: hook.secretSealed })
    .onConflict((conflict) =>
      conflict.column("app_id").doUpdateSet({
        secret_sealed: hook.secretSealed,
        rotated_at: sql<Date>`clock_timestamp()`,
      }),
    )
    .returningAll()
    .executeTakeFirstOrThrow();
}

/**
 * Records that a push arrived at the hook: one to the app's branch (`isOwn`), or one to another
 * repository, after which the app's branch has to be polled.
 */
export async function noteReceived(tx: Tx, appId: AppId, isOwn: boolean): Promise<void> {
  await tx
    .updateTable("git_hooks")
    .set({ received_at: isOwn ? sql<Date>`clock_timestamp()` : null })
    .where("app_id", "=", appId)
    .execute();
}

export type NewGitDelivery = Omit<Insertable<Tables["git_deliveries"]>, "decided_at">;

/** Adds a delivery, unless its app has one with the same key. Returns the added or existing row. */
export async function addDelivery(tx: Tx, delivery: NewGitDelivery): Promise<GitDeliveryRow> {
  const { app_id: appId, delivery_key: key = null, verdict } = delivery;
  const row = await tx
    .insertInto("git_deliveries")
    .values({
      ...delivery,
      decided_at: verdict === "waiting" ? null : sql<Date>`clock_timestamp()`,
    })
    .onConflict((conflict) => conflict.columns(["app_id", "delivery_key"]).doNothing())
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) {
    const existing = tx.selectFrom("git_deliveries").selectAll().where("app_id", "=", appId);
    return await existing.where("delivery_key", "=", key).executeTakeFirstOrThrow();
  }
  // Removes all deliveries but the newest `deliveriesMax`.
  await tx
    .deleteFrom("git_deliveries")
    .where("app_id", "=", appId)
    .where("number", "<=", (query) =>
      query
        .selectFrom("git_deliveries")
        .select("number")
        .where("app_id", "=", appId)
        .orderBy("number", "desc")
        .offset(deliveriesMax)
        .limit(1),
    )
    .execute();
  return row;
}

/**
 * At most `limit` deliveries of an app, newest first; with `before`, only ones with a lower number.
 * No locks.
 */
export async function listDeliveries(
  db: Db,
  page: { readonly appId: AppId; readonly before?: number | undefined; readonly limit: number },
): Promise<GitDeliveryRow[]> {
  let query = db.selectFrom("git_deliveries").selectAll().where("app_id", "=", page.appId);
  if (page.before !== undefined) query = query.where("number", "<", page.before);
  return await query.orderBy("number", "desc").limit(page.limit).execute();
}

/** A delivery of an app, or undefined. No locks. */
export async function readDelivery(
  db: Db,
  appId: AppId,
  id: GitDeliveryId,
): Promise<GitDeliveryRow | undefined> {
  return await db
    .selectFrom("git_deliveries")
    .selectAll()
    .where("id", "=", id)
    .where("app_id", "=", appId)
    .executeTakeFirst();
}

/**
 * Deliveries that wait for a verdict, oldest first. Deliveries of stopped apps are left out, since
 * they wait until the app is started. No locks.
 */
export async function waitingDeliveries(db: Db, limit: number): Promise<GitDeliveryRow[]> {
  return await db
    .selectFrom("git_deliveries")
    .innerJoin("apps", "apps.id", "git_deliveries.app_id")
    .selectAll("git_deliveries")
    .where("verdict", "=", "waiting")
    .where("apps.stopped_at", "is", null)
    .where("apps.deleting_at", "is", null)
    .orderBy("number")
    .limit(limit)
    .execute();
}

/**
 * Writes the verdict on deliveries of an app that still wait for one. With `buildId`, the build's
 * state is due to be reported to the host at once.
 */
export async function decideDeliveries(
  tx: Tx,
  ids: readonly GitDeliveryId[],
  decision: {
    readonly verdict: GitVerdict;
    readonly reason: string;
    readonly buildId?: BuildId | undefined;
  },
): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .updateTable("git_deliveries")
    .set({
      verdict: decision.verdict,
      reason: decision.reason,
      decided_at: sql<Date>`clock_timestamp()`,
      ...(decision.buildId === undefined
        ? {}
        : { build_id: decision.buildId, report_at: sql<Date>`clock_timestamp()` }),
    })
    .where("id", "in", ids)
    .where("verdict", "=", "waiting")
    .execute();
}

/** Records that the newest commit of an app's branch was seen. */
export async function putHead(tx: Tx, head: HeadRow): Promise<void> {
  await putRows(tx, "git_heads", ["app_id"], head);
}

/** A build of a push, with the state that was last reported to its host. */
export type UnreportedBuild = Awaited<ReturnType<typeof unreportedBuilds>>[number];

/**
 * At most `limit` builds whose state is due to be reported, the longest due first. No locks: only
 * one platform works on a database.
 */
export async function unreportedBuilds(db: Db, limit: number) {
  // The second condition: the state to report, which the `case` computes, is not the reported one.
  const isDue = sql<boolean>`
    delivery.report_at <= clock_timestamp()
    and delivery.reported is distinct from
        case when build.ended_at is null then 'pending' when build.status in ('success', 'cancelled') then build.status
             else 'failure' end`;
  return await db
    .selectFrom("git_deliveries as delivery")
    .innerJoin("builds as build", "build.id", "delivery.build_id")
    .innerJoin("apps as app", "app.id", "build.app_id")
    .select([
      "delivery.id",
      "delivery.host",
      "delivery.reported",
      "delivery.report_tries as reportTries",
    ])
    .select([
      "build.project_id as projectId",
      "build.app_id as appId",
      "app.name as appName",
      "build.id as buildId",
    ])
    .select(["build.number", "build.status", "build.reason"])
    // A build of a push always has a commit and a repository.
    .select([
      sql<string>`build.commit_sha`.as("commit"),
      sql<string>`build.request ->> 'gitRepo'`.as("gitRepo"),
    ])
    .where(isDue)
    .orderBy("delivery.report_at")
    .limit(limit)
    .execute();
}

/**
 * Records the state that was reported to the host, or why reporting it failed. `isLast`: there is
 * no further report. Without `retryAt`, the build's next state is reported as soon as it is
 * reached.
 */
export async function noteReport(
  db: Db,
  id: GitDeliveryId,
  note: {
    readonly reported: StatusState | null;
    readonly isLast: boolean;
    readonly failure?: string | null;
    readonly tries?: number;
    readonly retryAt?: Date;
  },
): Promise<void> {
  const {
    reported,
    isLast,
    failure = null,
    tries = 0,
    retryAt = sql<Date>`clock_timestamp()`,
  } = note;
  await db
    .updateTable("git_deliveries")
    .set({
      reported,
      report_failure: failure,
      report_tries: tries,
      report_at: isLast ? null : retryAt,
    })
    .where("id", "=", id)
    .execute();
}
