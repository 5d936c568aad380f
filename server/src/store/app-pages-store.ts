// Pages through the apps of all projects, for work that goes app by app.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Db } from "./database.ts";

/** The maximum number of apps of a page; a shorter page is the last one. */
export const appsPage = 500;

/** A page of the apps whose ids follow `after`, in the order of their ids. No locks. */
export async function appsAfter(
  db: Db,
  after: AppId | null,
): Promise<{ readonly appId: AppId; readonly projectId: ProjectId }[]> {
  let rows = db.selectFrom("apps").select(["id as appId", "project_id as projectId"]);
  if (after !== null) rows = rows.where("id", ">", after);
  return await rows.orderBy("id").limit(appsPage).execute();
}
