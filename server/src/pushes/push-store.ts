// Queries on hook addresses, on deliveries of push events, and on the newest commits of branches.
import { sql, type Insertable, type Selectable } from "kysely";
import type { GitVerdict } from "@slipway/contract/words.ts";
import type { AppId, BuildId, GitDeliveryId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import type { AppsTable, GitDeliveriesTable, GitHeadsTable, GitHooksTable } from "#store/tables.ts";

export type HookRow = Selectable<GitHooksTable>;
export type GitDeliveryRow = Selectable<GitDeliveriesTable>;
export type HeadRow = Selectable<GitHeadsTable>;
/** The columns of an app that decide about pushes. */
export type PushedAppRow = Pick<Selectable<AppsTable>, (typeof appColumns)[number]> & {
  /** The branch of the latest build; it counts when nobody has set one. */
  readonly usual_branch: string | null;
};

/** Older deliveries of an app are removed as new ones come. */
const deliveriesMax = 200;
const usualBranch = sql<string | null>`(select settings ->> 'gitBranch' from builds
  where app_id = apps.id and settings is not null order by number desc limit 1)`;
const appColumns = ["id", "project_id", "name", "request", "stopped_at", "auto_deploy_paused_reason"] as const;

/** An app that is not being removed; with `isLocked`, its row is locked. */
export async function readPushedApp(
  db: Db,
  appId: AppId,
  { isLocked = false }: { readonly isLocked?: boolean } = {},
): Promise<PushedAppRow | undefined> {
  const query = db
    .selectFrom("apps")
    .select(appColumns)
    .select(usualBranch.as("usual_branch"))
    .where("id", "=", appId)
    .where("deleting_at", "is", null);
  return await (isLocked ? query.forUpdate() : query).executeTakeFirst();
}

/** The hook of an app. No locks. */
export async function readHook(db: Db, appId: AppId): Promise<HookRow | undefined> {
  return await db.selectFrom("git_hooks").selectAll().where("app_id", "=", appId).executeTakeFirst();
}

/** The hook with this address. No locks. */
export async function hookAt(db: Db, address: string): Promise<HookRow | undefined> {
  return await db.selectFrom("git_hooks").selectAll().where("address", "=", address).executeTakeFirst();
}

/** Adds the hook of an app; if it has one, that keeps its address and gets the secret. */
export async function putHook(
  tx: Tx,
  hook: { readonly appId: AppId; readonly address: string; readonly secretSealed: string },
): Promise<HookRow> {
  return await tx
    .insertInto("git_hooks")
    .values({ app_id: hook.appId, address: hook.address, secret_sealed: hook.secretSealed })
    .onConflict((conflict) =>
      conflict
        .column("app_id")
        .doUpdateSet({ secret_sealed: hook.secretSealed, rotated_at: sql<Date>`clock_timestamp()` }),
    )
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Notes that a signed delivery has arrived at the hook. */
export async function noteReceived(tx: Tx, appId: AppId): Promise<void> {
  await tx
    .updateTable("git_hooks")
    .set({ received_at: sql<Date>`clock_timestamp()` })
    .where("app_id", "=", appId)
    .execute();
}

/** Adds a delivery, unless its app has one with its key; returns the row that is there then. */
export async function addDelivery(
  tx: Tx,
  delivery: Omit<Insertable<GitDeliveriesTable>, "decided_at">,
): Promise<{ readonly row: GitDeliveryRow; readonly isNew: boolean }> {
  const { app_id: appId, delivery_key: key = null, verdict } = delivery;
  const row = await tx
    .insertInto("git_deliveries")
    .values({ ...delivery, decided_at: verdict === "waiting" ? null : sql<Date>`clock_timestamp()` })
    .onConflict((conflict) => conflict.columns(["app_id", "delivery_key"]).doNothing())
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) {
    const all = tx.selectFrom("git_deliveries").selectAll().where("app_id", "=", appId);
    return { row: await all.where("delivery_key", "=", key).executeTakeFirstOrThrow(), isNew: false };
  }
  await tx
    .deleteFrom("git_deliveries")
    .where("app_id", "=", appId)
    .where("number", "<=", (old) =>
      old
        .selectFrom("git_deliveries")
        .select("number")
        .where("app_id", "=", appId)
        .orderBy("number", "desc")
        .offset(deliveriesMax)
        .limit(1),
    )
    .execute();
  return { row, isNew: true };
}

/** Deliveries of an app, newest first, at most `limit`; `before`: only those with a lower number. No locks. */
export async function listDeliveries(
  db: Db,
  given: { readonly appId: AppId; readonly before?: number | undefined; readonly limit: number },
): Promise<GitDeliveryRow[]> {
  let query = db.selectFrom("git_deliveries").selectAll().where("app_id", "=", given.appId);
  if (given.before !== undefined) query = query.where("number", "<", given.before);
  return await query.orderBy("number", "desc").limit(given.limit).execute();
}

/** One delivery of an app. No locks. */
export async function readDelivery(db: Db, appId: AppId, id: GitDeliveryId): Promise<GitDeliveryRow | undefined> {
  return await db
    .selectFrom("git_deliveries")
    .selectAll()
    .where("id", "=", id)
    .where("app_id", "=", appId)
    .executeTakeFirst();
}

/** Deliveries that wait for a verdict, oldest first; those of stopped apps wait for the start. No locks. */
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

/** Writes the verdict on waiting deliveries of an app. */
export async function decideDeliveries(
  tx: Tx,
  ids: readonly GitDeliveryId[],
  decided: {
    readonly verdict: GitVerdict;
    readonly reason: string;
    readonly buildId?: BuildId | undefined;
  },
): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .updateTable("git_deliveries")
    .set({
      verdict: decided.verdict,
      reason: decided.reason,
      decided_at: sql<Date>`clock_timestamp()`,
      ...(decided.buildId === undefined ? {} : { build_id: decided.buildId, report_at: sql<Date>`clock_timestamp()` }),
    })
    .where("id", "in", ids)
    .where("verdict", "=", "waiting")
    .execute();
}

/** What was seen of the branch of an app, and the commit of its latest build that was not cancelled. No locks. */
export async function readBranchHead(
  db: Db,
  appId: AppId,
): Promise<{ readonly head: HeadRow | undefined; readonly builtCommit: string | null }> {
  const head = await db.selectFrom("git_heads").selectAll().where("app_id", "=", appId).executeTakeFirst();
  const build = await db
    .selectFrom("builds")
    .select("commit_sha")
    .where("app_id", "=", appId)
    .where("commit_sha", "is not", null)
    .where("status", "<>", "cancelled")
    .orderBy("number", "desc")
    .limit(1)
    .executeTakeFirst();
  return { head, builtCommit: build?.commit_sha ?? null };
}

/** Notes the newest commit of the branch of an app as seen. */
export async function putHead(tx: Tx, head: HeadRow): Promise<void> {
  const { app_id: _, ...changed } = head;
  await tx
    .insertInto("git_heads")
    .values(head)
    .onConflict((conflict) => conflict.column("app_id").doUpdateSet(changed))
    .execute();
}

/** An app whose branch may be polled, its hook, and what was seen and built so far. */
export type PolledApp = PushedAppRow & {
  readonly received_at: Date | null;
  readonly branch: string | null;
  readonly seen_sha: string | null;
  /** Of the latest build that was not cancelled; `is_reading`: a build is about to find its commit. */
  readonly built_sha: string | null;
  readonly is_reading: boolean;
  readonly has_waiting: boolean;
  readonly has_credentials: boolean;
};

/** All apps that are not stopped, by id. No locks. */
export async function polledApps(db: Db): Promise<PolledApp[]> {
  const { rows } = await sql<PolledApp>`
    select apps.id, apps.project_id, apps.name, apps.request, apps.stopped_at, apps.auto_deploy_paused_reason,
           ${usualBranch} as usual_branch, hook.received_at, head.branch, head.seen_sha,
           (select commit_sha from builds where app_id = apps.id and commit_sha is not null and status <> 'cancelled'
             order by number desc limit 1) as built_sha,
           exists (select from builds where app_id = apps.id and ended_at is null and commit_sha is null) as is_reading,
           exists (select from git_deliveries where app_id = apps.id and verdict = 'waiting') as has_waiting,
           exists (select from git_credentials where project_id = apps.project_id) as has_credentials
      from apps
      left join git_hooks hook on hook.app_id = apps.id
      left join git_heads head on head.app_id = apps.id
     where apps.deleting_at is null and apps.stopped_at is null
     order by apps.id`.execute(db);
  return rows;
}
