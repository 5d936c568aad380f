// Statements for dead runs: failed runs that were not redriven and whose request is kept.
import { sql, type RawBuilder } from "kysely";
import { must } from "#lib/assert.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { changeRows, type Db, type Tx } from "#store/database.ts";
import { isDead } from "./run-list-store.ts";

/**
 * Selects dead runs of an app. Excludes runs that end after `before`: when a dead run was just
 * redriven and its new run fails at once, the new run is not redriven too.
 */
export type DeadWanted = {
  readonly appId: AppId;
  /** The final state of the runs; null: any. */
  readonly status: "failure" | "timeout" | null;
  readonly before: Date;
  readonly limit: number;
};

/**
 * Reads what decides whether a run can be redriven; locks its row. Undefined: the app has no such
 * async run.
 */
export async function lockRun(tx: Tx, appId: AppId, runId: RunId) {
  return await tx
    .selectFrom("runs")
    .select(["state", "redriven_as", "request_deleted_at", "cancel_requested_at"])
    .where("id", "=", runId)
    .where("app_id", "=", appId)
    .forUpdate()
    .executeTakeFirst();
}

/**
 * The database's time, rounded up to the millisecond: no run that has ended so far ended after the
 * returned time.
 */
export async function timeNow(db: Db): Promise<Date> {
  const { rows } = await sql<{
    now: Date;
  }>`select clock_timestamp() + interval '1 millisecond' as now`.execute(db);
  return must(rows[0], "the database tells its time").now;
}

/**
 * Creates a new run from a dead run, whose row is locked, and moves the request to the new run.
 * False when the request is missing.
 */
export async function redriveOne(tx: Tx, runId: RunId, newId: RunId): Promise<boolean> {
  const dead = sql`
    select id, webhook_secret_sealed as sealed, ${newId}::uuid as new_id from runs where id = ${runId} and ${isDead}`;
  return (await redrive(tx, dead)) === 1;
}

/** Creates new runs from dead ones, oldest first; returns how many. Skips locked rows. */
export async function redriveSome(tx: Tx, query: DeadWanted): Promise<number> {
  return await redrive(
    tx,
    sql`select id, sealed, gen_random_uuid() as new_id from (${someDead(query)}) as oldest`,
  );
}

/** Deletes the requests of dead runs, oldest first; returns how many. Skips locked rows. */
export async function purgeSome(tx: Tx, query: DeadWanted): Promise<number> {
  return await changeRows(tx)`
    with dead as (${someDead(query)}),
         deleted as (delete from run_requests using dead where run_id = dead.id)
    update runs set request_deleted_at = clock_timestamp(), webhook_secret_sealed = null
      from dead where runs.id = dead.id`;
}

/** Selects and locks dead runs, oldest first. */
function someDead({ appId, status, before, limit }: DeadWanted): RawBuilder<unknown> {
  const hasStatus = status === null ? sql`true` : sql`state = ${sql.lit(status)}`;
  return sql`
    select id, webhook_secret_sealed as sealed from runs where app_id = ${appId} and ${isDead} and ${hasStatus} and ended_at <= ${before}
     order by accepted_at, id limit ${limit} for update skip locked`;
}

/**
 * Creates a new run from each dead run that the query `chosen` selects, with the columns `id`,
 * `sealed` and `new_id`; returns how many. Moves the requests instead of copying them: a run can be
 * redriven only once, and bodies may be large.
 */
async function redrive(tx: Tx, chosen: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with chosen as (${chosen}),
    marked as (
      update runs set redriven_as = chosen.new_id, webhook_secret_sealed = null from chosen, run_requests
       where runs.id = chosen.id and run_requests.run_id = runs.id and runs.redriven_as is null
      returning runs.*, chosen.sealed
    ),
    created as (
      insert into runs (id, project_id, app_id, state, method, path, client_address, release_id, retries_max,
                        webhook_endpoint, webhook_secret_sealed, build_id)
      select redriven_as, project_id, app_id, 'pending', method, path, client_address,
             (select live_release_id from apps where apps.id = marked.app_id), retries_max, webhook_endpoint, sealed,
             build_id
        from marked
    ),
    moved as (update run_requests set run_id = marked.redriven_as from marked where run_requests.run_id = marked.id)
    select count(*) as count from marked`.execute(tx);
  return rows[0]?.count ?? 0;
}

/**
 * Deletes at most `limit` requests of runs that ended before `before`, which cannot be redriven
 * afterwards; returns how many. Uses the index `runs_dead_by_end`.
 */
export async function deleteOldRequests(
  db: Db,
  { before, limit }: { readonly before: Date; readonly limit: number },
): Promise<number> {
  return await changeRows(db)`
    with old as (
      select id from runs where ${isDead} and ended_at < ${before} order by ended_at limit ${limit}
         for update skip locked
    ), deleted as (delete from run_requests using old where run_id = old.id)
    update runs set request_deleted_at = clock_timestamp(), webhook_secret_sealed = null
      from old where runs.id = old.id`;
}
