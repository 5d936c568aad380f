// Queries for what apps used over the last month.
import { sql } from "kysely";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { RemovalStep } from "#lib/retention.ts";
import { readRows, type Db, type Tx } from "#store/database.ts";
import { rowsWhere } from "#store/older-rows.ts";

/**
 * How long the step of a stored row is, in seconds, and how long the row is kept, in days. The rows
 * of minutes are kept for an hour more than a day, so that a request for the last 24 hours finds
 * them all.
 */
const minutes = { step: 60, days: 25 / 24 } as const;
const quarters = { step: 900, days: 30 } as const;
/** How far back charts go, in days. */
export const chartDays = quarters.days;

/**
 * One measurement of an app or of a replica. In the row of a replica, the numbers of replicas and
 * calls are 0, and `durations` is null.
 */
export type UseSample = {
  readonly appId: AppId;
  /**
   * Empty: the row of the app, with the cores, memory and GPUs of all its replicas that have no row
   * of their own.
   */
  readonly replicaId: ReplicaId | "";
  readonly cores: number;
  readonly memoryBytes: number;
  /** From 0 to 1; null: it has no GPU, or it was not measured. */
  readonly gpu: number | null;
  /** The number of replicas that have not stopped. */
  readonly running: number;
  /** The number of replicas that are ready. */
  readonly ready: number;
  /** Calls received since the previous measurement. */
  readonly requests: number;
  /** Calls that ended with a failure since the previous measurement. */
  readonly failures: number;
  /**
   * How many calls that ended since the previous measurement are in each bucket of durations; null:
   * not counted.
   */
  readonly durations: readonly number[] | null;
};

/** One point of a chart: means of measurements, but `requests` and `failures` are sums. */
export type UsePoint = Omit<UseSample, "appId" | "durations"> & {
  /** For each stored row, the number of calls in each bucket of durations. */
  readonly durations: readonly (readonly number[])[] | null;
  /** The start of the step, in milliseconds since the epoch. */
  readonly at: number;
  /** The number of measurements. */
  readonly samples: number;
};

/** The steps of a chart. `stepMs` is a multiple of the step of the stored rows. */
type Steps = { readonly from: Date; readonly to: Date; readonly stepMs: number };

/**
 * Adds measurements of one moment to the stored rows, in one transaction. Skips deleted apps. Locks
 * the rows in the order of their ids.
 */
export async function addUses(db: Db, samples: readonly UseSample[], atMs: number): Promise<void> {
  await db.transaction().execute((tx) => addInTx(tx, samples, atMs));
}

/** The rows hold sums, from which `readUses` makes means. */
async function addInTx(tx: Tx, samples: readonly UseSample[], atMs: number): Promise<void> {
  for (const { step } of [minutes, quarters]) {
    // The start of the step.
    const at = new Date(atMs - (atMs % (step * 1000)));
    await sql`
      insert into app_uses (app_id, step_seconds, at, replica_id, samples,
                            cores, memory_bytes, gpu_utilization, running, ready, requests, failures, durations)
      select "appId", ${step}, ${at}::timestamptz, "replicaId", 1, cores, "memoryBytes", gpu, running, ready, requests,
             failures, durations
        from jsonb_to_recordset(${JSON.stringify(samples)}::jsonb) as given (
          "appId" text, "replicaId" text, cores float8, "memoryBytes" float8, gpu float8,
          running float8, ready float8, requests float8, failures float8, durations float8[])
       where exists (select from apps where apps.id = "appId" and deleting_at is null)
       order by "appId", "replicaId"
      on conflict (app_id, step_seconds, at, replica_id) do update set
        samples = app_uses.samples + 1,
        cores = app_uses.cores + excluded.cores,
        memory_bytes = app_uses.memory_bytes + excluded.memory_bytes,
        gpu_utilization = coalesce(app_uses.gpu_utilization + excluded.gpu_utilization, app_uses.gpu_utilization,
                                   excluded.gpu_utilization),
        running = app_uses.running + excluded.running,
        ready = app_uses.ready + excluded.ready,
        requests = app_uses.requests + excluded.requests,
        failures = app_uses.failures + excluded.failures,
        durations = (
          select array_agg(coalesce(one, 0) + coalesce(other, 0) order by place)
            from unnest(app_uses.durations, excluded.durations) with ordinality as counts (one, other, place)
        )`.execute(tx);
  }
}

/**
 * The points of a chart, ordered by time: of the app and of the replica `replicaId`, or of all
 * replicas if `replicaId` is null. Reads the rows of minutes or of quarters of an hour. No locks.
 */
export async function readUses(
  db: Db,
  appId: AppId,
  chart: Steps & { readonly rows: "minutes" | "quarters"; readonly replicaId: ReplicaId | null },
): Promise<readonly UsePoint[]> {
  const { from, to, stepMs, replicaId } = chart;
  const { step } = chart.rows === "minutes" ? minutes : quarters;
  return await readRows<UsePoint>(db)`
    select floor(extract(epoch from at) * 1000 / ${stepMs})::float8 * ${stepMs} as at, replica_id as "replicaId",
           sum(samples)::float8 as samples, sum(cores) / sum(samples) as cores,
           sum(memory_bytes) / sum(samples) as "memoryBytes",
           sum(gpu_utilization) / sum(samples) filter (where gpu_utilization is not null) as gpu,
           sum(running) / sum(samples) as running, sum(ready) / sum(samples) as ready, sum(requests) as requests,
           sum(failures) as failures, jsonb_agg(durations) filter (where durations is not null) as durations
      from app_uses
     where app_id = ${appId} and step_seconds = ${step} and at >= ${from} and at < ${to}
       and (${replicaId}::text is null or replica_id in (${replicaId}, ''))
     group by 1, 2 order by 1, 2`;
}

/**
 * How many replicas of an app started in each step, by the start of the step. Leaves out replicas
 * that only tried a release. No locks.
 */
export async function readStarts(
  db: Db,
  appId: AppId,
  { from, to, stepMs }: Steps,
): Promise<Map<number, number>> {
  const rows = await readRows<{ at: number; starts: number }>(db)`
    select floor(extract(epoch from created_at) * 1000 / ${stepMs})::float8 * ${stepMs} as at, count(*)::float8 as starts
      from replicas
     where app_id = ${appId} and created_at >= ${from} and created_at < ${to} and not is_trial
     group by 1`;
  return new Map(rows.map(({ at, starts }) => [at, starts]));
}

/**
 * Steps that remove rows that are too old. `daysAgo` gives the time that is the given number of
 * days before now.
 */
export function useRemovalSteps(db: Db, daysAgo: (days: number) => Date): RemovalStep[] {
  return [minutes, quarters].map(({ step, days }) =>
    rowsWhere(db, {
      name: "uses of apps",
      table: "app_uses",
      which: sql`step_seconds = ${step} and at < ${daysAgo(days)}`,
    }),
  );
}
