// Queries for what apps used over the last month.
import { sql } from "kysely";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { RemovalStep } from "#lib/retention.ts";
import { readRows, type Db, type Tx } from "#store/database.ts";
import { rowsWhere } from "#store/older-rows.ts";

/** Steps of stored rows, in seconds, and how long they are kept, in days. The hour more covers a request for a whole day. */
const minutes = { step: 60, days: 25 / 24 } as const;
const quarters = { step: 900, days: 30 } as const;

/** One measurement. `replicaId` empty: the app, and the replicas without a row of their own. */
export type UseSample = {
  readonly appId: AppId;
  readonly replicaId: ReplicaId | "";
  readonly cores: number;
  readonly memoryBytes: number;
  /** From 0 to 1; null: it has no GPU, or it was not measured. */
  readonly gpu: number | null;
  /** Replicas of the app: those that run, and those of them that are ready. */
  readonly running: number;
  readonly ready: number;
  /** Calls received since the previous measurement. */
  readonly requests: number;
};

/** Means over one point of a chart; `requests` is a sum. `at`: its start, in milliseconds since the epoch. */
export type UsePoint = Omit<UseSample, "appId"> & { readonly at: number; readonly samples: number };

/** Adds measurements of one moment to their rows, in order and in one transaction; skips deleted apps. */
export async function addUses(db: Db, samples: readonly UseSample[], atMs: number): Promise<void> {
  await db.transaction().execute((tx) => addInTx(tx, samples, atMs));
}

async function addInTx(tx: Tx, samples: readonly UseSample[], atMs: number): Promise<void> {
  for (const { step } of [minutes, quarters]) {
    const at = new Date(atMs - (atMs % (step * 1000)));
    await sql`
      insert into app_uses (app_id, step_seconds, at, replica_id, samples,
                            cores, memory_bytes, gpu_utilization, running, ready, requests)
      select "appId", ${step}, ${at}::timestamptz, "replicaId", 1, cores, "memoryBytes", gpu, running, ready, requests
        from jsonb_to_recordset(${JSON.stringify(samples)}::jsonb) as given (
          "appId" text, "replicaId" text, cores float8, "memoryBytes" float8, gpu float8,
          running float8, ready float8, requests float8)
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
        requests = app_uses.requests + excluded.requests`.execute(tx);
  }
}

/** The points of a chart of an app, or of one of its replicas and the app, by time. `stepMs` is a multiple of the rows' steps. */
export async function readUses(
  db: Db,
  appId: AppId,
  wanted: {
    readonly from: Date;
    readonly to: Date;
    readonly stepMs: number;
    readonly rows: "minutes" | "quarters";
    readonly replicaId: ReplicaId | null;
  },
): Promise<readonly UsePoint[]> {
  const { from, to, stepMs, replicaId } = wanted;
  const { step } = wanted.rows === "minutes" ? minutes : quarters;
  return await readRows<UsePoint>(db)`
    select floor(extract(epoch from at) * 1000 / ${stepMs})::float8 * ${stepMs} as at, replica_id as "replicaId",
           sum(samples)::float8 as samples, sum(cores) / sum(samples) as cores,
           sum(memory_bytes) / sum(samples) as "memoryBytes",
           sum(gpu_utilization) / sum(samples) filter (where gpu_utilization is not null) as gpu,
           sum(running) / sum(samples) as running, sum(ready) / sum(samples) as ready, sum(requests) as requests
      from app_uses
     where app_id = ${appId} and step_seconds = ${step} and at >= ${from} and at < ${to}
       and (${replicaId}::text is null or replica_id in (${replicaId}, ''))
     group by 1, 2 order by 1, 2`;
}

/** What is too old of all apps. `daysAgo` gives the instant that many days before now. */
export function useRemovalSteps(db: Db, daysAgo: (days: number) => Date): RemovalStep[] {
  return [minutes, quarters].map(({ step, days }) =>
    rowsWhere(db, {
      name: "uses of apps",
      table: "app_uses",
      which: sql`step_seconds = ${step} and at < ${daysAgo(days)}`,
    }),
  );
}
