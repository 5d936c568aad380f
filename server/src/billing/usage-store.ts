// What projects have used and what it costs, from sums by day. Nothing here takes a lock.
import { sql } from "kysely";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { daysOf, type Period } from "./period.ts";

/** What a project, or one app of it, costs in a month (UTC) before coupons, in micro-units of the billing account's currency. */
export async function costOfMonth(
  db: Db | Tx,
  { projectId, appId, month }: { readonly projectId: ProjectId; readonly appId?: AppId; readonly month: Period },
): Promise<bigint> {
  const { from, to } = daysOf(month);
  let days = db
    .selectFrom("usage_days")
    .select(sql<string>`coalesce(sum(amount_micros), 0)`.as("micros"))
    .where("project_id", "=", projectId)
    .where("day", ">=", from)
    .where("day", "<", to);
  if (appId !== undefined) days = days.where("app_id", "=", appId);
  return BigInt((await days.executeTakeFirstOrThrow()).micros);
}

/** What each app of a project that has used something in a month (UTC) costs before coupons, in micro-units. */
export async function costsOfApps(
  db: Db | Tx,
  { projectId, month }: { readonly projectId: ProjectId; readonly month: Period },
): Promise<Map<AppId, bigint>> {
  const { from, to } = daysOf(month);
  const rows = await db
    .selectFrom("usage_days")
    .select(["app_id", sql<string>`sum(amount_micros)`.as("micros")])
    .where("project_id", "=", projectId)
    .where("day", ">=", from)
    .where("day", "<", to)
    .groupBy("app_id")
    .execute();
  return new Map(rows.map(({ app_id: appId, micros }) => [appId as AppId, BigInt(micros)]));
}
