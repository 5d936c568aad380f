// Benchmarks usage on its own embedded database, with the platform's code: what the API reads of a
// year of a thousand apps, a metering turn over a thousand running replicas, and the heartbeat.
// Removes everything that it creates.
import { Client } from "pg";
import { Meter } from "@slipway/server/src/billing/usage/meter.ts";
import { builtInPrices } from "@slipway/server/src/billing/usage/prices.ts";
import { StatementQueries } from "@slipway/server/src/billing/statements/statement-queries.ts";
import { UsageQueries } from "@slipway/server/src/billing/usage/usage-queries.ts";
import { costOfMonth } from "@slipway/server/src/billing/usage/usage-store.ts";
import { systemClock, type Clock } from "@slipway/server/src/lib/clock.ts";
import type { AppId, ProjectId, ReplicaId } from "@slipway/server/src/lib/ids.ts";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { Secret } from "@slipway/server/src/lib/secret.ts";
import { ReplicaStore } from "@slipway/server/src/scheduler/replica-store.ts";
import { openDatabase } from "@slipway/server/src/store/database.ts";
import { migrate } from "@slipway/server/src/store/migrate.ts";
import { openServer, Stage } from "#bench/async/stage.ts";

export type UsageBenchOptions = { readonly apps: number; readonly rounds: number };

/** Durations of one kind of read or work, in ms. */
export type UsageTimes = { readonly name: string; readonly timesMs: readonly number[] };

export type UsageResult = {
  readonly days: number;
  readonly databaseBytes: number;
  readonly times: readonly UsageTimes[];
};

const projectId = "p-00000001" as ProjectId;
const firstApp = `${projectId}-app-1` as AppId;
const nowMs = Date.UTC(2026, 11, 31, 12);
const clock: Clock = { ...systemClock, now: () => nowMs };
/** The number of replicas in each metered minute. */
const replicas = 1_000;
const minuteMs = 60_000;
const readings = 30;

/** Runs all benchmarks, one after the other. */
export async function benchUsage(
  options: UsageBenchOptions,
  print: (line: string) => void,
): Promise<UsageResult> {
  const stage = new Stage();
  try {
    const server = await openServer(stage);
    const url = new Secret(await server.database("usage"));
    await migrate({ url, log: silentLog });
    const owner = new Client({ connectionString: url.reveal() });
    await owner.connect();
    stage.onClose(() => owner.end());
    const db = await openDatabase({ clock: systemClock, url, connections: 4, log: silentLog });
    stage.onClose(() => db.destroy());
    await fill(owner, options.apps);
    print("filled a year");
    const { rows } = await owner.query<{ days: string; bytes: string }>(
      "select (select count(*) from usage_days) as days, pg_database_size(current_database()) as bytes",
    );
    const usage = new UsageQueries({ db, clock });
    const statements = new StatementQueries({ db, clock });
    const year = { projectId, from: "2026-01-01", to: "2027-01-01" };
    const month = "2026-11";
    const reading: readonly (readonly [string, () => Promise<unknown>])[] = [
      ["the cost of a month", () => usage.cost(projectId, month)],
      ["the cost of a month of one app", () => usage.costOfApp(projectId, firstApp, month)],
      ["the total that a budget check reads", () => costOfMonth(db, { projectId, month })],
      ["a year by app", () => usage.usage(year, "app")],
      ["a year by day", () => usage.usage(year, "day")],
      ["a year by compute type", () => usage.usage(year, "compute")],
      ["the statement of a month", () => statements.read(projectId, month)],
      ["the list of statements, none closed", () => statements.list(projectId)],
    ];
    const times: UsageTimes[] = [];
    for (const [name, read] of reading) times.push({ name, timesMs: await timed(readings, read) });
    print("measured readings");
    times.push(...(await benchMeter(new ReplicaStore(db), { db, rounds: options.rounds })));
    return { days: Number(rows[0]?.days), databaseBytes: Number(rows[0]?.bytes), times };
  } finally {
    await stage.close();
  }
}

/** Repeatedly meters one minute of each of a thousand replicas. */
async function benchMeter(
  store: ReplicaStore,
  {
    db,
    rounds,
  }: { readonly db: ConstructorParameters<typeof ReplicaStore>[0]; readonly rounds: number },
): Promise<UsageTimes[]> {
  const meter = new Meter({
    db,
    clock,
    log: silentLog,
    prices: builtInPrices,
    intervalMs: minuteMs,
    postingDelayMs: 10 * minuteMs,
    onPosted: () => undefined,
    onStep: () => undefined,
  });
  const ids = Array.from({ length: replicas }, (_, index) => `bench-${index + 1}` as ReplicaId);
  const sightings: number[] = [];
  const turns: number[] = [];
  for (let round = 0; round < rounds; round++) {
    sightings.push(
      ...(await timed(1, () =>
        store.seen(ids.map((replicaId) => ({ replicaId, at: nowMs + (round + 1) * minuteMs }))),
      )),
    );
    turns.push(...(await timed(1, () => meter.turn())));
  }
  return [
    { name: `recording that ${replicas.toLocaleString("en")} replicas run`, timesMs: sightings },
    {
      name: `metering one minute for each of ${replicas.toLocaleString("en")} replicas`,
      timesMs: turns,
    },
  ];
}

async function timed(count: number, act: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  for (let done = 0; done < count; done++) {
    const began = performance.now();
    await act();
    times.push(performance.now() - began);
  }
  return times;
}

/**
 * A project with a year of daily usage of its apps, the same for others, its own coupons, and
 * running replicas.
 */
async function fill(owner: Client, apps: number): Promise<void> {
  await owner.query(`
    insert into projects (id, name) select 'p-' || lpad(to_hex(n), 8, '0'), 'bench' from generate_series(1, 11) n;
    insert into billing_accounts (project_id) select id from projects;
    insert into usage_days (project_id, day, app_id, kind, compute, compute_tier, pool, ms, gpu_ms, core_ms, gb_ms, builds, amount_micros)
    select p, to_char(date '2026-01-01' + d, 'YYYY-MM-DD'), p || '-app-' || a, 'run', 'CPU', 'interruptible', '',
           86400000, 0, 86400000, 172800000, 0, 949536
      from (select '${projectId}' as p, generate_series(1, ${apps}) as a
             union all select 'p-' || lpad(to_hex(n), 8, '0'), a from generate_series(2, 11) n, generate_series(1, ${apps} / 10) a) apps,
           generate_series(0, 364) d
     order by 2, 1, 3;
    insert into usage_months
    select project_id, left(day, 7), app_id, kind, compute, compute_tier, pool,
           sum(ms), sum(gpu_ms), sum(core_ms), sum(gb_ms), sum(builds), sum(amount_micros)
      from usage_days group by 1, 2, 3, 4, 5, 6, 7;
    insert into usage_project_days
    select project_id, day, kind, compute, compute_tier, pool,
           sum(ms), sum(gpu_ms), sum(core_ms), sum(gb_ms), sum(builds), sum(amount_micros)
      from usage_days group by 1, 2, 3, 4, 5, 6;
    insert into usage_stretches (project_id, begins_at, amount_micros)
    select '${projectId}', make_timestamptz(2026, m, 1, 0, 0, 0, 'UTC'), 949536::numeric * 30 * ${apps} from generate_series(1, 12) m;
    insert into coupons (id, code, name, coupon_type, rate, frequency, is_reusable)
    select gen_random_uuid(), 'BENCH' || n, 'Bench', 'percentage', 1000000, 'forever', true from generate_series(1, 20) n;
    insert into coupon_applications (id, project_id, coupon_id, created_at)
    select gen_random_uuid(), '${projectId}', id, '2026-01-01' from coupons;
    insert into apps (id, project_id, name, request) values ('${firstApp}', '${projectId}', 'app-1', '{}');
    insert into builds (id, project_id, app_id, number, cause, status, request, ended_at, is_metered)
    values ('00000000-0000-4000-8000-000000000001', '${projectId}', '${firstApp}', 1, 'create', 'success', '{}', now(), true);
    insert into releases (id, project_id, app_id, build_id, settings, artifact, number, cause, state)
    values ('00000000-0000-4000-8000-000000000002', '${projectId}', '${firstApp}', '00000000-0000-4000-8000-000000000001', '{}', '{}', 1, 'create', 'live');
    insert into replicas (id, project_id, app_id, release_id, build_id, driver, state, compute, compute_tier, gpu_count, cpu_cores, memory_gb, created_at, started_at, ready_at)
    select 'bench-' || n, '${projectId}', '${firstApp}', '00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000001',
           'process', 'ready', 'CPU', 'interruptible', 0, 1, 2, to_timestamp(${nowMs / 1000}), to_timestamp(${nowMs / 1000}), to_timestamp(${nowMs / 1000})
      from generate_series(1, ${replicas}) n`);
  await owner.query("vacuum analyze");
}
