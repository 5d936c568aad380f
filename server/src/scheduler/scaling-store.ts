// Queries on the scheduler's state of apps that survives its process.
import { sql } from "kysely";
import type { AppId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { StoredScaling } from "./replica-rows.ts";

/** All rows. No locks. */
export async function readScaling(db: Db): Promise<readonly StoredScaling[]> {
  return await db.selectFrom("app_scaling").selectAll().execute();
}

/** Writes some rows and removes others in one statement; skips apps that no longer exist. */
export async function writeScaling(
  db: Db,
  changed: readonly StoredScaling[],
  removed: readonly AppId[],
): Promise<void> {
  await sql`
    with gone as (
      delete from app_scaling where app_id = any (${removed}::text[])
    ), given as (
      select * from jsonb_to_recordset(${JSON.stringify(changed)}::jsonb) as given (
        app_id text, counts integer[], held_until timestamptz[], release_id uuid, failures integer,
        failed_at timestamptz, retry_at timestamptz, reason text, is_shown boolean)
    )
    insert into app_scaling (app_id, counts, held_until, release_id, failures, failed_at, retry_at, reason, is_shown)
    select app_id, counts, held_until, release_id, failures, failed_at, retry_at, reason, is_shown
      from given where exists (select from apps where apps.id = given.app_id) order by app_id
    on conflict (app_id) do update set counts = excluded.counts, held_until = excluded.held_until,
      release_id = excluded.release_id, failures = excluded.failures, failed_at = excluded.failed_at,
      retry_at = excluded.retry_at, reason = excluded.reason, is_shown = excluded.is_shown`.execute(db);
}
