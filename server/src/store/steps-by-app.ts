// Steps of retention for rows that are kept for a number of days that a project's plan says. The
// steps go app by app, since each scan of all rows would pass over the rows that are kept longer.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { RemovalStep } from "#lib/retention.ts";
import { appsAfter, appsPage } from "./app-pages-store.ts";
import type { Db } from "./database.ts";

/**
 * Returns a function that says how many days the rows of a project are kept; null when the number
 * is the same for all projects. Answers from memory.
 */
export type DaysOfProjects = () => ((projectId: ProjectId) => number) | null;

/**
 * The steps of one turn: those of all apps at once, or of each app with the days of its project.
 */
export async function* stepsByApp(
  db: Db,
  retention: {
    readonly days: number;
    readonly daysOf: DaysOfProjects;
    /** The steps for one app; `appId` undefined: for all apps. */
    readonly stepsOf: (days: number, appId?: AppId) => readonly RemovalStep[];
  },
): AsyncGenerator<RemovalStep> {
  const { days, daysOf, stepsOf } = retention;
  const daysOfProject = daysOf();
  if (daysOfProject === null) return yield* stepsOf(days);
  for (let after: AppId | null = null; ;) {
    // The compiler cannot infer this type, since `after` depends on `apps` and `apps` on `after`.
    const apps: Awaited<ReturnType<typeof appsAfter>> = await appsAfter(db, after);
    for (const { appId, projectId } of apps) yield* stepsOf(daysOfProject(projectId), appId);
    after = apps.at(-1)?.appId ?? null;
    if (apps.length < appsPage) return;
  }
}
