// Queries on the scheduler's state of apps that survives its process.
import { sql } from "kysely";
import { must } from "#lib/assert.ts";
import type { AppId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { AppScalingTable } from "#store/tables.ts";
import type { StoredScaling } from "./replica-rows.ts";

/** All rows. No locks. */
export async function readScaling(db: Db): Promise<readonly StoredScaling[]> {
  const rows = await db.selectFrom("app_scaling").selectAll().execute();
  return rows.map((row) => ({
    appId: row.app_id,
    recommendations: row.counts.map((count, index) => ({
      count,
      until: must(row.held_until[index], "each count has a time").getTime(),
    })),
    starts: startsOf(row),
  }));
}

function startsOf(row: AppScalingTable): StoredScaling["starts"] {
  const { release_id: releaseId, failures, failed_at: failedAt, retry_at: retryAt, reason, is_shown: isShown } = row;
  if (releaseId === null || failures === null || failedAt === null) return null;
  if (retryAt === null || reason === null || isShown === null) return null;
  return { releaseId, failures, failedAt: failedAt.getTime(), retryAt: retryAt.getTime(), reason, isShown };
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
      select * from jsonb_to_recordset(${JSON.stringify(changed.map(columnsOf))}::jsonb) as given (
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

function columnsOf({ appId, recommendations, starts }: StoredScaling) {
  return {
    app_id: appId,
    counts: recommendations.map(({ count }) => count),
    held_until: recommendations.map(({ until }) => new Date(until)),
    ...(starts === null
      ? {}
      : {
          release_id: starts.releaseId,
          failures: starts.failures,
          failed_at: new Date(starts.failedAt),
          retry_at: new Date(starts.retryAt),
          reason: starts.reason,
          is_shown: starts.isShown,
        }),
  };
}
