// Queries on the Idempotency-Keys of async calls.
import { sql } from "kysely";
import type { AppId, RunId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { NewRun } from "./run-store.ts";

/** How long a key stands for one request. */
export const keyHours = 24;

/**
 * True when the key stands for this run from now on, because it is new or expired; false: it stands
 * for an earlier run.
 */
export async function takeRunKey(
  tx: Tx,
  keyedRun: { readonly run: NewRun; readonly key: string; readonly hash: Buffer },
): Promise<boolean> {
  const { run, key, hash } = keyedRun;
  const { rows } = await sql<{ run_id: RunId }>`
    insert into run_keys (app_id, key, request_hash, run_id, created_at)
    values (${run.appId}, ${key}, ${hash}, ${run.runId}, clock_timestamp())
    on conflict (app_id, key) do update
       set request_hash = excluded.request_hash, run_id = excluded.run_id, created_at = clock_timestamp()
     where run_keys.created_at < clock_timestamp() - ${keyHours} * interval '1 hour'
    returning run_id`.execute(tx);
  return rows.length > 0;
}

/** The run that a key stands for, and the hash of its request. */
export async function readRunKey(
  tx: Tx,
  appId: AppId,
  key: string,
): Promise<{ readonly runId: RunId; readonly hash: Buffer }> {
  return await tx
    .selectFrom("run_keys")
    .select(["run_id as runId", "request_hash as hash"])
    .where("app_id", "=", appId)
    .where("key", "=", key)
    .executeTakeFirstOrThrow();
}
