// Lists apps, for retention that works app by app.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

/** Apps by id, after the given one. No locks. */
export async function appsAfter(
  db: Db,
  page: { readonly after: AppId | null; readonly limit: number },
): Promise<{ readonly appId: AppId; readonly projectId: ProjectId }[]> {
  let rows = db.selectFrom("apps").select(["id as appId", "project_id as projectId"]);
  if (page.after !== null) rows = rows.where("id", ">", page.after);
  return await rows.orderBy("id").limit(page.limit).execute();
}
