// Queries of metering: the replicas, builds and volumes to meter, their slices, and the progress.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { sql } from "kysely";
import { shownAppId, type AppId, type ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import type { Slice } from "./slices.ts";
import { poolOf, type Metered, type MeteredSource, type SourceKind } from "./metered-source.ts";

/** Projects with sources to meter or usage to post, in any order. No locks. */
export async function readProjectsToMeter(db: Db): Promise<ProjectId[]> {
  const { rows } = await sql<{ project_id: ProjectId }>`
    select project_id from replicas where started_at is not null and not is_metered
    union select project_id from builds where ended_at is not null and not is_metered
    union select project_id from volume_uses where ${hasStorage}
    union select project_id from billing_accounts where posting_due_at <= clock_timestamp()`.execute(
    db,
  );
  return rows.map((row) => row.project_id);
}

/** True for a row of `volume_uses` that is not yet metered to its end. */
const hasStorage = sql`not is_metered and (ended_at is not null or seen_at > coalesce(metered_until, began_at))`;

/**
 * Locks the project's billing account until the transaction ends. Returns the number of its
 * postings so far, and whether a posting is due; null: another process holds it and meters the
 * project.
 */
export async function lockAccount(
  tx: Tx,
  projectId: ProjectId,
): Promise<{ readonly postings: number; readonly isPostingDue: boolean } | null> {
  const row = await tx
    .selectFrom("billing_accounts")
    .select([
      "postings",
      sql<boolean>`coalesce(posting_due_at <= clock_timestamp(), false)`.as("is_due"),
    ])
    .where("project_id", "=", projectId)
    .forNoKeyUpdate()
    .skipLocked()
    .executeTakeFirst();
  return row === undefined ? null : { postings: row.postings, isPostingDue: row.is_due };
}

type SourceRow = {
  id: string;
  kind: SourceKind;
  app_id: AppId;
  compute: string;
  compute_tier: string;
  provider: string | null;
  region: string | null;
  gpu_count: number;
  /** In thousandths of a core; `gbs` is in thousandths of a GB. */
  cores: string;
  gbs: string;
  /** When the metered time begins; null: a build that has made no environment. */
  started_at: Date | null;
  /**
   * When the metered time ended, or when the source was last seen; null: a build that has made no
   * environment, or was interrupted while it made one.
   */
  until_at: Date | null;
  /**
   * When the replica, the build or the use of storage began. A build has this time even without an
   * environment.
   */
  began_at: Date;
  is_ended: boolean;
};

/**
 * The sources of a project to meter, at most `limit` of each kind. Replicas that are furthest
 * behind come first. No locks.
 */
export async function readSources(
  tx: Tx,
  projectId: ProjectId,
  limit: number,
): Promise<MeteredSource[]> {
  const { rows } = await sql<SourceRow>`
    (select id, 'run' as kind, app_id, compute, compute_tier, provider, region, gpu_count,
            cpu_cores * 1000 as cores, memory_gb * 1000 as gbs,
            started_at, coalesce(stopped_at, seen_at) as until_at, started_at as began_at, stopped_at is not null as is_ended
       from replicas
      where project_id = ${projectId} and started_at is not null and not is_metered
        and (stopped_at is not null or seen_at > coalesce(metered_until, started_at))
      order by coalesce(metered_until, started_at), id limit ${limit})
    union all
    (select id::text, 'build', app_id, 'CPU', 'interruptible', null, null, 0,
            coalesce((settings ->> 'cpu')::numeric(8, 3), 0) * 1000, coalesce((settings ->> 'memory')::numeric(8, 3), 0) * 1000,
            environment_started_at, environment_ended_at, coalesce(started_at, created_at), true
       from builds
      where project_id = ${projectId} and ended_at is not null and not is_metered
      order by ended_at, id limit ${limit})
    union all
    (select id, 'storage', '', 'storage', '', null, null, 0, 0, size_mb,
            began_at, coalesce(ended_at, seen_at), began_at, ended_at is not null
       from volume_uses
      where project_id = ${projectId} and ${hasStorage}
      order by began_at, id limit ${limit})`.execute(tx);
  const known = await readKnown(tx, rows);
  return rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    projectId,
    // Usage belongs to an app's name: an app that is created again continues the sums of the
    // deleted one.
    appId: shownAppId(row.app_id),
    resources: {
      compute: row.compute,
      computeTier: row.compute_tier,
      provider: row.provider,
      region: row.region,
      gpuCount: row.gpu_count,
      // The columns have at most three decimals, so thousandths are whole, apart from rounding
      // errors of floating-point numbers.
      coreThousandths: BigInt(Math.round(Number(row.cores))),
      gbThousandths: BigInt(Math.round(Number(row.gbs))),
    },
    ...spanOf(row),
    isEnded: row.is_ended,
    known: known.get(row.id) ?? [],
  }));
}

/** When the source is metered. A span without length has no usage. */
function spanOf({ began_at, started_at, until_at }: SourceRow): { startMs: number; endMs: number } {
  // A build that made no environment counts on the day it began.
  if (started_at === null) return { startMs: began_at.getTime(), endMs: began_at.getTime() };
  // A build without the end of its environment was interrupted, and has no usage.
  const endedAt = until_at ?? started_at;
  return { startMs: started_at.getTime(), endMs: endedAt.getTime() };
}

/**
 * For each source, the last slice that begins at or before its end, and all later ones, in time
 * order.
 */
async function readKnown(tx: Tx, sources: readonly SourceRow[]): Promise<Map<string, Slice[]>> {
  const ids = sources.map(({ id }) => id);
  const ends = sources.map(({ until_at: until, began_at: began }) => until ?? began);
  const { rows } = await sql<{
    id: string;
    begins_at: Date;
    ms: number;
    rate: string;
    before: string;
    micros: string;
  }>`
    select s.source_id as id, s.begins_at, s.ms, s.rate_femtos as rate, s.attos_before as before, s.amount_micros as micros
      from unnest(${ids}::text[], ${ends}::timestamptz[]) as batch (id, until_at)
      join lateral (
        select * from usage_slices
         where source_id = batch.id and begins_at >= coalesce(
           (select max(begins_at) from usage_slices where source_id = batch.id and begins_at <= batch.until_at), '-infinity')
      ) s on true
     order by s.source_id, s.begins_at`.execute(tx);
  const slices = new Map<string, Slice[]>();
  for (const { id, begins_at: begins, ms, rate, before, micros } of rows) {
    const amounts = {
      rateFemtos: BigInt(rate),
      attosBefore: BigInt(before),
      micros: BigInt(micros),
    };
    getOrInsert(slices, id, () => []).push({ beginsAtMs: begins.getTime(), ms, ...amounts });
  }
  return slices;
}

/** Replaces the known slices of each source. The billing account must be locked. */
export async function writeSlices(tx: Tx, metered: readonly Metered[]): Promise<void> {
  const removed: { readonly id: string; readonly beginsAt: Date }[] = [];
  for (const { source, slices } of metered) {
    const remaining = new Set(slices.map(({ beginsAtMs }) => beginsAtMs));
    for (const { beginsAtMs } of source.known) {
      if (remaining.has(beginsAtMs)) continue;
      removed.push({ id: source.id, beginsAt: new Date(beginsAtMs) });
    }
  }
  if (removed.length > 0) {
    const ids = removed.map(({ id }) => id);
    const begins = removed.map(({ beginsAt }) => beginsAt);
    await sql`
      delete from usage_slices using unnest(${ids}::text[], ${begins}::timestamptz[]) as batch (id, begins_at)
       where source_id = batch.id and usage_slices.begins_at = batch.begins_at`.execute(tx);
  }
  const rows: ReturnType<typeof sliceRow>[] = [];
  for (const { source, slices } of metered) {
    const known = new Map(source.known.map((slice) => [slice.beginsAtMs, slice]));
    for (const slice of slices) {
      // A slice that has kept its begin and its length is as it is stored.
      if (known.get(slice.beginsAtMs)?.ms !== slice.ms) rows.push(sliceRow(source, slice));
    }
  }
  if (rows.length === 0) return;
  await sql`
    insert into usage_slices (source_id, begins_at, kind, project_id, app_id, compute, compute_tier, pool, gpu_count,
        cpu_cores, memory_gb, ms, rate_femtos, attos_before, amount_micros)
    select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as batch (source_id text, begins_at timestamptz,
        kind text, project_id text, app_id text, compute text, compute_tier text, pool text, gpu_count integer,
        cpu_cores numeric, memory_gb numeric, ms bigint, rate_femtos numeric, attos_before numeric, amount_micros numeric)
    on conflict (source_id, begins_at) do update set ms = excluded.ms, rate_femtos = excluded.rate_femtos,
        attos_before = excluded.attos_before, amount_micros = excluded.amount_micros`.execute(tx);
}

function sliceRow(source: MeteredSource, slice: Slice) {
  const { id, kind, projectId, appId, resources } = source;
  return {
    source_id: id,
    begins_at: new Date(slice.beginsAtMs),
    kind,
    project_id: projectId,
    app_id: appId,
    compute: resources.compute,
    compute_tier: resources.computeTier,
    pool: poolOf(resources),
    gpu_count: resources.gpuCount,
    cpu_cores: Number(resources.coreThousandths) / 1000,
    memory_gb: Number(resources.gbThousandths) / 1000,
    ms: slice.ms,
    rate_femtos: String(slice.rateFemtos),
    attos_before: String(slice.attosBefore),
    amount_micros: String(slice.micros),
  };
}

/** Records the metering progress of each source. Locks their rows in the order of ids. */
export async function writeProgress(tx: Tx, metered: readonly Metered[]): Promise<void> {
  const rows = metered
    .map(({ source, untilMs, isDone }) => ({
      id: source.id,
      kind: source.kind,
      until_at: new Date(untilMs),
      done: isDone,
    }))
    .toSorted((left, right) => (left.id < right.id ? -1 : 1));
  const batch = JSON.stringify(rows);
  for (const [kind, name] of [
    ["run", "replicas"],
    ["storage", "volume_uses"],
  ] as const) {
    await sql`
      with batch as (
        select * from jsonb_to_recordset(${batch}::jsonb) as batch (id text, kind text, until_at timestamptz, done boolean)
         where kind = ${kind}
      ), locked as (
        select rows.id from ${sql.table(name)} as rows join batch using (id) order by rows.id for no key update of rows
      )
      update ${sql.table(name)} as metered set metered_until = batch.until_at, is_metered = batch.done
        from batch, locked where metered.id = batch.id and locked.id = batch.id`.execute(tx);
  }
  // The `case` makes sure that only the ids of builds are cast: not all other ids are UUIDs.
  await sql`
    update builds set is_metered = true
      from jsonb_to_recordset(${batch}::jsonb) as batch (id text, kind text, done boolean)
     where kind = 'build' and done and builds.id = case when kind = 'build' then batch.id::uuid end`.execute(
    tx,
  );
}

/** Schedules a posting of changed usage after `afterMs`, unless one is already scheduled. */
export async function wantPosting(tx: Tx, projectId: ProjectId, afterMs: number): Promise<void> {
  await sql`
    update billing_accounts set posting_due_at = coalesce(posting_due_at, clock_timestamp() + ${afterMs} * interval '1 millisecond')
     where project_id = ${projectId} and posting_due_at is null`.execute(tx);
}
