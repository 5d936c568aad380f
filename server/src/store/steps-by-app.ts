// Retention whose days differ between projects, by their plans: app by app, since a scan of all
// rows would skip the longer-kept ones again and again.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { RemovalStep } from "#lib/retention.ts";
import type { Db } from "./database.ts";

/**
 * For how many days a project's rows are kept, if that differs between projects; otherwise null.
 * Answers from memory.
 */
export type DaysOfProjects = () => ((projectId: ProjectId) => number) | null;

const appsPage = 500;

/**
 * The steps of one turn: those of all apps at once, or of each app with the days of its project.
 */
export async function* stepsByApp(
  db: Db,
  wanted: {
    readonly days: number;
    readonly daysOf: DaysOfProjects;
    /** `appId` undefined: of all apps. */
    readonly stepsOf: (days: number, appId?: AppId) => readonly RemovalStep[];
  },
): AsyncGenerator<RemovalStep> {
  const { days, daysOf, stepsOf } = wanted;
  const ofProject = daysOf();
  if (ofProject === null) return yield* stepsOf(days);
  for (let after: AppId | null = null; ;) {
    const apps: Awaited<ReturnType<typeof appsAfter>> = await appsAfter(db, after);
    for (const { appId, projectId } of apps) yield* stepsOf(ofProject(projectId), appId);
    after = apps.at(-1)?.appId ?? null;
    if (apps.length < appsPage) return;
  }
}

/** By id, without locks. */
async function appsAfter(
  db: Db,
  after: AppId | null,
): Promise<{ readonly appId: AppId; readonly projectId: ProjectId }[]> {
  let rows = db.selectFrom("apps").select(["id as appId", "project_id as projectId"]);
  if (after !== null) rows = rows.where("id", ">", after);
  return await rows.orderBy("id").limit(appsPage).execute();
}
