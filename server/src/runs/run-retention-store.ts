// Deletes what is too old of runs and calls, so many rows per statement at most. No statement touches a run that has not
// ended: only the end of a run has an age.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";
import { isDead } from "./run-list-store.ts";

/** What is older than `before` is deleted, at most `limit` rows, in no order; the number of rows is returned. */
export type DeleteSome = (db: Db, options: { readonly before: Date; readonly limit: number }) => Promise<number>;

/** Results of runs. Found by the index on their time. */
export const deleteOldResults: DeleteSome = async (db, { before, limit }) => {
  const old = db.selectFrom("run_results").select("run_id").where("created_at", "<", before).limit(limit);
  const result = await db.deleteFrom("run_results").where("run_id", "in", old).executeTakeFirst();
  return Number(result.numDeletedRows);
};

/** Requests of dead runs, which cannot be redriven any more then. Found by `runs_dead_by_end`. */
export const deleteOldRequests: DeleteSome = async (db, { before, limit }) => {
  const result = await sql`
    with old as (
      select id from runs where ${isDead} and ended_at < ${before} order by ended_at limit ${limit}
         for update skip locked
    ), deleted as (delete from run_requests using old where run_id = old.id)
    update runs set request_deleted_at = clock_timestamp(), webhook_secret_sealed = null
      from old where runs.id = old.id`.execute(db);
  return Number(result.numAffectedRows ?? 0n);
};

/** Runs by their end, with what is left of them. */
export const deleteOldRuns: DeleteSome = async (db, { before, limit }) => {
  const old = db.selectFrom("runs").select("id").where("ended_at", "<", before).limit(limit);
  const result = await db.deleteFrom("runs").where("id", "in", old).executeTakeFirst();
  return Number(result.numDeletedRows);
};

/** Records of plain calls. */
export const deleteOldCalls: DeleteSome = async (db, { before, limit }) => {
  const old = db.selectFrom("calls").select("id").where("ended_at", "<", before).limit(limit);
  const result = await db.deleteFrom("calls").where("id", "in", old).executeTakeFirst();
  return Number(result.numDeletedRows);
};

/** How many plain calls were left out. */
export const deleteOldLeftOut: DeleteSome = async (db, { before, limit }) => {
  const old = db.selectFrom("calls_left_out").select("id").where("at", "<", before).limit(limit);
  const result = await db.deleteFrom("calls_left_out").where("id", "in", old).executeTakeFirst();
  return Number(result.numDeletedRows);
};

/** Idempotency keys. */
export const deleteOldKeys: DeleteSome = async (db, { before, limit }) => {
  const result = await sql`
    delete from run_keys where ctid in (
      select ctid from run_keys where created_at < ${before} limit ${limit} for update skip locked)`.execute(db);
  return Number(result.numAffectedRows ?? 0n);
};
