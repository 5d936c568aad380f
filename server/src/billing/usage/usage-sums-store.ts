// Rows of usage sums: by day and month, and by stretch. Written only under the lock of the
// project's billing account.
import { sql, type RawBuilder } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { poolOf } from "./metered-source.ts";
import type { StretchCut } from "./stretches.ts";
import type { DayChange } from "./usage-sums.ts";

/** The tables of sums, and what identifies a row of each besides its project. */
const tables = {
  usage_days: ["day", "app_id", "kind", "compute", "compute_tier", "pool"],
  usage_months: ["period", "app_id", "kind", "compute", "compute_tier", "pool"],
  usage_project_days: ["day", "kind", "compute", "compute_tier", "pool"],
} as const;

/** Adds to sums by day and by month; inserts missing rows. */
export async function addToDays(
  tx: Tx,
  projectId: ProjectId,
  changes: readonly DayChange[],
): Promise<void> {
  if (changes.length === 0) return;
  const rows = changes.map(({ source: { appId, kind, resources }, day, ms, builds, micros }) => ({
    day,
    // A day is a text such as `2026-11-28`, and a period its month.
    period: day.slice(0, 7),
    app_id: appId,
    kind,
    compute: resources.compute,
    compute_tier: resources.computeTier,
    pool: poolOf(resources),
    // A bigint can only be in JSON as a text.
    ms: String(ms),
    gpu_ms: String(ms * BigInt(resources.gpuCount)),
    // Thousandths of a core and of a GB; the statement in `addTo` divides their sums by 1000.
    core_ms: String(ms * resources.coreThousandths),
    gb_ms: String(ms * resources.gbThousandths),
    builds,
    micros: String(micros),
  }));
  const batch = JSON.stringify(rows);
  for (const table of ["usage_days", "usage_months", "usage_project_days"] as const) {
    await addTo(tx, { table, projectId, batch });
  }
}

/**
 * Adds to the sums of one table. Updates rows before it inserts missing ones: `on conflict` would
 * try to insert each change first, and the table's checks refuse a row with a negative sum.
 */
async function addTo(
  tx: Tx,
  { table, projectId, batch }: { table: keyof typeof tables; projectId: ProjectId; batch: string },
): Promise<void> {
  const names = tables[table];
  const keys = sql.join(names.map((name) => sql.ref(name)));
  const haveSameKeys = (left: string, right: string): RawBuilder<unknown> => {
    const equalities = names.map(
      (name) => sql`${sql.ref(`${left}.${name}`)} = ${sql.ref(`${right}.${name}`)}`,
    );
    return sql.join(equalities, sql` and `);
  };
  await sql`
    with batch as (
      select ${keys}, sum(ms) as ms, sum(gpu_ms) as gpu_ms, sum(core_ms) / 1000 as core_ms, sum(gb_ms) / 1000 as gb_ms,
             sum(builds) as builds, sum(micros) as micros
        from jsonb_to_recordset(${batch}::jsonb) as batch (day text, period text, app_id text, kind text, compute text,
             compute_tier text, pool text, ms bigint, gpu_ms bigint, core_ms numeric, gb_ms numeric, builds integer, micros numeric)
       group by ${keys}
    ), changed as (
      update ${sql.table(table)} d
         set ms = d.ms + batch.ms, gpu_ms = d.gpu_ms + batch.gpu_ms, core_ms = d.core_ms + batch.core_ms,
             gb_ms = d.gb_ms + batch.gb_ms, builds = d.builds + batch.builds, amount_micros = d.amount_micros + batch.micros
        from batch where d.project_id = ${projectId} and ${haveSameKeys("d", "batch")}
      returning ${sql.join(names.map((name) => sql.ref(`d.${name}`)))}
    )
    insert into ${sql.table(table)} (project_id, ${keys}, ms, gpu_ms, core_ms, gb_ms, builds, amount_micros)
    select ${projectId}, batch.* from batch
     where not exists (select from changed c where ${haveSameKeys("c", "batch")})`.execute(tx);
}

/** The starts of a project's stretches, and their sums in micro-units, in time order. No locks. */
export async function readStretches(
  db: Db | Tx,
  projectId: ProjectId,
): Promise<{ atMs: number; micros: bigint }[]> {
  const rows = await db
    .selectFrom("usage_stretches")
    .select(["begins_at", "amount_micros"])
    .where("project_id", "=", projectId)
    .orderBy("begins_at")
    .execute();
  return rows.map((row) => ({ atMs: row.begins_at.getTime(), micros: BigInt(row.amount_micros) }));
}

/**
 * Splits a stretch as `StretchCut` describes. The slices from `atMs` to `toMs` say how much of the
 * stretch's sum moves to the new stretch.
 */
export async function cutStretch(
  tx: Tx,
  projectId: ProjectId,
  { ofMs, atMs, toMs }: StretchCut,
): Promise<void> {
  const begin = new Date(ofMs);
  const at = new Date(atMs);
  const to = new Date(toMs);
  await sql`
    with moved as (
      select coalesce(sum(amount_micros), 0) as micros from usage_slices
       where project_id = ${projectId} and begins_at >= ${at} and begins_at < ${to}
    ), left_over as (
      update usage_stretches set amount_micros = amount_micros - moved.micros
        from moved where project_id = ${projectId} and begins_at = ${begin} and moved.micros <> 0
    )
    insert into usage_stretches (project_id, begins_at, amount_micros) select ${projectId}, ${at}, micros from moved`.execute(
    tx,
  );
}

/**
 * Adds micro-units to the stretches with these starts, in milliseconds since 1970; inserts missing
 * rows.
 */
export async function addToStretches(
  tx: Tx,
  projectId: ProjectId,
  changes: ReadonlyMap<number, bigint>,
): Promise<void> {
  if (changes.size === 0) return;
  const begins = [...changes.keys()].map((atMs) => new Date(atMs));
  const micros = [...changes.values()].map(String);
  await sql`
    with batch as (
      select begins_at, micros from unnest(${begins}::timestamptz[], ${micros}::numeric[]) as batch (begins_at, micros)
    ), changed as (
      update usage_stretches s set amount_micros = s.amount_micros + batch.micros
        from batch where s.project_id = ${projectId} and s.begins_at = batch.begins_at
      returning s.begins_at
    )
    insert into usage_stretches (project_id, begins_at, amount_micros)
    select ${projectId}, begins_at, micros from batch where begins_at not in (select begins_at from changed)`.execute(
    tx,
  );
}
