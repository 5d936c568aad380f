// Rows of releases for tests that need them and build nothing.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";

/**
 * Gives an app's first build two releases: v1, which was replaced, and v2, which takes the calls.
 */
export async function insertReleases(db: Db, appId: string): Promise<void> {
  await sql`
    with made as (
      insert into releases (id, project_id, app_id, build_id, number, cause, state, settings, artifact, promoted_at,
        end_reason, ended_at)
      select gen_random_uuid(), project_id, app_id, id, n, 'create', case n when 1 then 'replaced' else 'live' end,
        request, '{"kind": "x"}', now(), case n when 1 then 'A newer release took its place.' end,
        case n when 1 then now() end
      from builds cross join generate_series(1, 2) n where app_id = ${appId} and builds.number = 1
      returning id, number
    ) update apps set live_release_id = made.id from made where made.number = 2 and apps.id = ${appId}`.execute(
    db,
  );
}
