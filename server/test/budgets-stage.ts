// What tests of budgets have in common: money that was spent.
import { sql } from "kysely";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

/** As if metering had found that an app (the first one, unless it is named) cost so much, this month unless another is named. */
export async function spend(
  db: Db,
  { projectId }: { readonly projectId: ProjectId },
  given: { readonly cents: number; readonly app?: string; readonly month?: string },
): Promise<void> {
  const { cents, app = "example", month = new Date().toISOString().slice(0, 7) } = given;
  await sql`insert into billing_accounts (project_id) values (${projectId}) on conflict do nothing`.execute(db);
  const micros = cents * 10_000;
  await sql`
    insert into usage_days (project_id, day, app_id, kind, compute, compute_tier, pool, ms, gpu_ms, core_ms, gb_ms, builds, amount_micros)
    values (${projectId}, ${`${month}-01`}, ${appIdOf(projectId, app)}, 'run', 'CPU', 'interruptible', '', 1, 0, 1, 1, 0, ${micros})
    on conflict (project_id, day, app_id, kind, compute, compute_tier, pool)
      do update set amount_micros = usage_days.amount_micros + excluded.amount_micros`.execute(db);
}
