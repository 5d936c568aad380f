// Queries for the plans of projects, and for how much of their limits the projects use.
import { sql, type Selectable } from "kysely";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { countRows, readRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type PlannedProject = Pick<
  Selectable<Tables["projects"]>,
  "id" | "name" | "plan" | "created_at"
>;

/** How much of each limited resource a project uses. */
export type PlanUsage = { readonly apps: number; readonly replicas: number; readonly gpus: number };

/**
 * A row of a project that has a plan or is stopped; a project with several stops has a row for
 * each.
 */
export type StandingRow = {
  readonly id: ProjectId;
  readonly plan: string | null;
  readonly isStopped: boolean;
  /** The app that is stopped; null: the whole project. */
  readonly appId: AppId | null;
};

/** The name of the project's plan; null: the default. No locks. */
export async function planNameOf(db: Db, projectId: ProjectId): Promise<string | null> {
  const row = await db
    .selectFrom("projects")
    .select("plan")
    .where("id", "=", projectId)
    .executeTakeFirst();
  return row?.plan ?? null;
}

/** Assigns another plan to the project, whose row is locked. */
export async function updatePlan(tx: Tx, projectId: ProjectId, plan: string | null): Promise<void> {
  await tx.updateTable("projects").set({ plan }).where("id", "=", projectId).execute();
}

export type PlannedPage = {
  /** The id, or a part of the name in upper or lower case; null: all projects. */
  readonly search: string | null;
  /** The last id of the previous page. */
  readonly after: string | null;
  readonly limit: number;
};

/** A page of the projects that are not deleted, ordered by id. No locks. */
export async function listPlanned(db: Db, page: PlannedPage): Promise<PlannedProject[]> {
  let rows = db
    .selectFrom("projects")
    .select(["id", "name", "plan", "created_at"])
    .where("deleted_at", "is", null);
  if (page.after !== null) rows = rows.where("id", ">", page.after as ProjectId);
  if (page.search !== null) {
    rows = rows.where(
      sql<boolean>`(id = ${page.search} or strpos(lower(name), lower(${page.search})) > 0)`,
    );
  }
  return await rows.orderBy("id").limit(page.limit).execute();
}

/** How many apps the project has. No locks. */
export async function countApps(db: Db, projectId: ProjectId): Promise<number> {
  const apps = db
    .selectFrom("apps")
    .where("project_id", "=", projectId)
    .where("deleting_at", "is", null);
  return await countRows(apps);
}

/** The project's current usage; counts replicas that start or serve. No locks. */
export async function planUsageOf(db: Db, projectId: ProjectId): Promise<PlanUsage> {
  const row = await db
    .selectFrom("replicas")
    .select(({ fn }) => fn.countAll<number>().as("replicas"))
    .select(({ fn }) => fn.coalesce(fn.sum<number>("gpu_count"), sql<number>`0`).as("gpus"))
    .where("project_id", "=", projectId)
    .where("stopped_at", "is", null)
    .where("state", "in", ["starting", "ready"])
    .executeTakeFirstOrThrow();
  return { apps: await countApps(db, projectId), ...row };
}

/** Names of plans in use, with the number of their projects. No locks. */
export async function plansInUse(db: Db): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom("projects")
    .select("plan")
    .select(({ fn }) => fn.countAll<number>().as("count"))
    .where("plan", "is not", null)
    .where("deleted_at", "is", null)
    .groupBy("plan")
    .execute();
  // The query leaves out projects without a plan, so the empty name only satisfies the compiler.
  return new Map(rows.map(({ plan, count }) => [plan ?? "", count]));
}

/**
 * Reads which of the projects have a plan, or are stopped by a budget in the month `period`.
 * `projectIds` null: all projects. No locks.
 */
export async function readStandings(
  db: Db,
  { projectIds, period }: { readonly projectIds: readonly ProjectId[] | null; period: string },
): Promise<StandingRow[]> {
  const isWanted = projectIds === null ? sql`true` : sql`p.id = any(${[...projectIds]})`;
  return await readRows<StandingRow>(db)`
    select p.id, p.plan, b.id is not null as "isStopped", b.app_id as "appId"
      from projects p
      left join budgets b on b.project_id = p.id and b.stopped_at is not null and b.period = ${period}
     where ${isWanted} and (p.plan is not null or b.id is not null)`;
}
