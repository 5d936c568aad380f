// Queries that remove apps: an app is marked as deleted, and then its rows are deleted in batches.
// The audit log and the usage stay, and the app's own row stays for a day, so that no other app
// gets its id while something still writes rows with it.
import { sql, type RawBuilder } from "kysely";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { RemovalStep } from "#lib/retention.ts";
import { changeOne, changeRows, type Db, type Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { rowsWhere } from "#store/older-rows.ts";
import type { Tables } from "#store/tables.ts";

/** A deleted app that still has rows. */
export type DeletedApp = { readonly id: AppId; readonly projectId: ProjectId };

/** The maximum number of apps in one turn; further apps wait for the next turn. */
const appsMax = 1_000;
/** The reason of builds and runs that end with their app; the API shows it. */
const cancelReason = "The app was deleted.";
/** The batch size for rows that may have a body of several megabytes. */
const bodiesMax = 500;

/**
 * Marks the apps as deleted: they take no calls and no changes, no list shows them, and their names
 * are free. Ends their builds, and erases their secrets. Returns the apps that were not deleted
 * before. The caller holds the locks on their rows.
 */
export async function markAppsDeleted(
  tx: Tx,
  apps: readonly AppId[],
): Promise<{ readonly id: AppId; readonly name: string }[]> {
  if (apps.length === 0) return [];
  const now = sql<Date>`clock_timestamp()`;
  const marked = await tx
    .updateTable("apps")
    .set({ deleting_at: now, updated_at: now, live_release_id: null, docker_auth_sealed: null })
    .where("id", "in", apps)
    .where("deleting_at", "is", null)
    .returning(["id", "name"])
    .execute();
  const ids = marked.map(({ id }) => id);
  const ofApps = sql`app_id = any(${ids}::text[])`;
  const { rows: builds } = await sql<{ id: string }>`
    update builds set updated_at = ${now}, cancel_reason = ${cancelReason},
        cancel_requested_at = coalesce(cancel_requested_at, ${now}),
        status = case when status = 'pending' then 'cancelled' else status end,
        reason = case when status = 'pending' then ${cancelReason} else reason end,
        ended_at = case when status = 'pending' then ${now} end
     where ${ofApps} and ended_at is null returning id`.execute(tx);
  await sql`delete from secrets where ${ofApps}`.execute(tx);
  await sql`delete from budgets where ${ofApps}`.execute(tx);
  await sql`delete from git_hooks where ${ofApps}`.execute(tx);
  await sql`delete from roll_outs where ${ofApps}`.execute(tx);
  // Other apps can have these domains at once.
  const { rows: domains } = await sql<{ name: string }>`
    delete from app_domains where ${ofApps} returning name`.execute(tx);
  for (const { name } of domains) await notify(tx, "domains", name);
  for (const { id } of builds) await notify(tx, "builds", id);
  for (const id of ids) await notify(tx, "apps", id);
  return marked;
}

/** Locks the rows of the project's apps that are not deleted, in the order of their ids. */
export async function lockAppsOf(tx: Tx, projectId: ProjectId): Promise<AppId[]> {
  const apps = tx
    .selectFrom("apps")
    .select("id")
    .where("project_id", "=", projectId)
    .where("deleting_at", "is", null);
  return (await apps.orderBy("id").forUpdate().execute()).map(({ id }) => id);
}

/**
 * Deleted apps that still have other rows, or whose own row has stayed for a day. The app that was
 * deleted first comes first. No locks.
 */
export async function readDeleted(db: Db): Promise<DeletedApp[]> {
  return await db
    .selectFrom("apps")
    .select(["id", "project_id as projectId"])
    .where("deleting_at", "is not", null)
    .where(sql<boolean>`(removed_at is null or removed_at < clock_timestamp() - interval '1 day')`)
    .orderBy("deleting_at")
    .limit(appsMax)
    .execute();
}

/**
 * Ends up to `limit` pending runs of a deleted app; returns how many. Skips locked rows. Each run
 * gets the next epoch, which keeps an earlier holder of the run's lease from writing.
 */
async function cancelRuns(db: Db, appId: AppId, limit: number): Promise<number> {
  const now = sql`clock_timestamp()`;
  return await changeRows(db)`
    update runs set state = 'cancelled', reason = ${cancelReason}, status_code = null, ended_at = ${now},
        cancel_requested_at = ${now}, webhook_secret_sealed = null, lease_epoch = lease_epoch + 1
     where id = any(array(select id from runs where app_id = ${appId} and state = 'pending'
                           limit ${limit} for update skip locked))`;
}

/**
 * The condition for deleting the row of a replica: it has stopped and is metered, or it never
 * started, so that there is nothing to meter.
 */
export const hasReplicaEnded = sql`stopped_at is not null and (is_metered or started_at is null)`;

/**
 * The steps that remove the rows of a deleted app, in order. Replicas and builds stay until they
 * have ended and are metered, runs until they have ended. Deliveries that are still tried stay for
 * up to an hour after the deletion.
 */
export function removalSteps(db: Db, { id, projectId }: DeletedApp): RemovalStep[] {
  const ofApp = sql`app_id = ${id}`;
  const isTried = sql`ended_at is null and exists (
    select from apps where id = ${id} and deleting_at > clock_timestamp() - interval '1 hour')`;
  const builds = sql`select id from builds where ${ofApp} and ended_at is not null`;
  const hasAny = (table: keyof Tables): RawBuilder<unknown> =>
    sql`exists (select from ${sql.table(table)} where ${ofApp})`;
  const rows = (table: keyof Tables, which: RawBuilder<unknown>, batchMax?: number): RemovalStep =>
    rowsWhere(db, { name: table, table, which, batchMax });
  return [
    { name: "waiting runs", batchMax: bodiesMax, remove: (limit) => cancelRuns(db, id, limit) },
    rows("runs", sql`${ofApp} and ended_at is not null`, bodiesMax),
    rows("run_keys", ofApp),
    rows("calls", ofApp),
    rows("calls_left_out", ofApp),
    rows(
      "webhook_deliveries",
      sql`project_id = ${projectId} and ${ofApp} and not (${isTried})`,
      bodiesMax,
    ),
    rows("app_logs", ofApp),
    rows("app_scaling", ofApp),
    rows("app_uses", ofApp),
    rows("secrets", ofApp),
    rows("budgets", ofApp),
    rows("git_hooks", ofApp),
    rows("git_heads", ofApp),
    rows("git_deliveries", ofApp),
    rows("roll_outs", ofApp),
    rows("app_domains", ofApp),
    rows("replicas", sql`${ofApp} and ${hasReplicaEnded}`),
    rows("releases", sql`${ofApp} and not ${hasAny("replicas")}`),
    rows("build_logs", sql`build_id in (${builds})`),
    rows(
      "builds",
      sql`${ofApp} and ended_at is not null and is_metered and not ${hasAny("replicas")} and not ${hasAny("releases")}`,
    ),
    rows("uploads", sql`${ofApp} and not ${hasAny("builds")}`),
  ];
}

/**
 * Marks a deleted app as removed when it has no rows but its own. When the app was marked before,
 * its own row is deleted instead. Returns true when this call has marked the app.
 */
export async function endRemoval(db: Db, id: AppId): Promise<boolean> {
  const ofApp = sql`app_id = ${id}`;
  const hasOtherRows = sql`exists (select from builds where ${ofApp}) or exists (select from runs where ${ofApp})
    or exists (select from uploads where ${ofApp}) or exists (select from releases where ${ofApp}) or exists (select from replicas where ${ofApp})
    or exists (select from webhook_deliveries where project_id = apps.project_id and ${ofApp})`;
  await sql`delete from apps where id = ${id} and removed_at is not null and not (${hasOtherRows})`.execute(
    db,
  );
  return await changeOne(db)`
    update apps set removed_at = clock_timestamp() where id = ${id} and removed_at is null and not (${hasOtherRows})`;
}

/**
 * Returns which of these ids belong to removed apps, or to deleted projects whose apps are all
 * removed. Unknown ids are not returned: another database may know them.
 */
export async function readRemoved(db: Db, ids: readonly string[]): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from projects where id = any(${ids}) and deleted_at is not null
      and not exists (select from apps where project_id = projects.id and removed_at is null)
    union all
    select id from apps where id = any(${ids}) and removed_at is not null`.execute(db);
  return rows.map(({ id }) => id);
}
