// Rows of statements, and of usage in the form that statements show.
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { insertNew, type Db, type Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import type { Period } from "#billing/period.ts";
import type { StatementContent, StatementLine } from "./statement.ts";

/** A closed statement. */
export type ClosedStatement = { readonly content: StatementContent; readonly closedAt: Date };

/** All closed statements of a project, oldest first. No locks. */
export async function readClosed(db: Db | Tx, projectId: ProjectId): Promise<ClosedStatement[]> {
  const rows = await db
    .selectFrom("statements")
    .select(["content", "closed_at"])
    .where("project_id", "=", projectId)
    .orderBy("period")
    .execute();
  return rows.map((row) => ({ content: row.content as StatementContent, closedAt: row.closed_at }));
}

/** Stores a statement permanently; does nothing if the month already has one. */
export async function insertStatement(
  tx: Tx,
  projectId: ProjectId,
  content: StatementContent,
): Promise<void> {
  const row = { project_id: projectId, period: content.period, content: toJson(content) };
  await insertNew(tx, "statements", { ...row, closed_at: sql<Date>`clock_timestamp()` });
}

/**
 * Months up to `last` with usage in the ledger and no closed statement, of all projects, oldest
 * first; at most `limit`.
 */
export async function readToClose(
  db: Db,
  last: Period,
  limit: number,
): Promise<{ readonly projectId: ProjectId; readonly period: Period }[]> {
  const { rows } = await sql<{ project_id: ProjectId; period: Period }>`
    select p.project_id, p.period from usage_posted p
     where p.period <= ${last}
       and not exists (select from statements s where s.project_id = p.project_id and s.period = p.period)
     order by p.period, p.project_id limit ${limit}`.execute(db);
  return rows.map((row) => ({ projectId: row.project_id, period: row.period }));
}

/** Each app's usage in a month, by kind, compute type, tier and pool. No locks. */
export async function readLines(
  db: Db | Tx,
  projectId: ProjectId,
  period: Period,
): Promise<StatementLine[]> {
  const sumOf = (column: string) => sql<string>`sum(${sql.ref(column)})`;
  const rows = await db
    .selectFrom("usage_months")
    .select(["app_id", "kind", "compute", "compute_tier", "pool"])
    .select([sumOf("ms").as("ms"), sumOf("gpu_ms").as("gpu_ms"), sumOf("core_ms").as("core_ms")])
    .select([
      sumOf("gb_ms").as("gb_ms"),
      sumOf("builds").as("builds"),
      sumOf("amount_micros").as("micros"),
    ])
    .where("project_id", "=", projectId)
    .where("period", "=", period)
    .groupBy(["app_id", "kind", "compute", "compute_tier", "pool"])
    .orderBy("app_id")
    // Storage comes first, then runs, then builds.
    .orderBy("kind", "desc")
    .orderBy("compute")
    .orderBy("compute_tier")
    .orderBy("pool")
    .execute();
  return rows.map((row) => ({
    appId: row.app_id,
    kind: row.kind,
    compute: row.compute,
    computeTier: row.compute_tier,
    pool: row.pool,
    ms: Number(row.ms),
    gpuMs: Number(row.gpu_ms),
    coreMs: Number(row.core_ms),
    gbMs: Number(row.gb_ms),
    builds: Number(row.builds),
    micros: row.micros,
  }));
}
