// Usage on a database of its own, with the platform's code: what the API reads of a year of a
// thousand apps, a metering turn over a thousand running replicas, and the heartbeat.
import type { Client } from "pg";
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
import type { Db } from "@slipway/server/src/store/database.ts";
import { migrate } from "@slipway/server/src/store/migrate.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { connectTo, openPlatformDatabase, startDatabaseServer } from "./harness/database-server.ts";
import { milliseconds, table } from "./harness/markdown.ts";
import { byName, inRounds, timed } from "./harness/rounds.ts";
import { median } from "./harness/statistics.ts";

/** Durations of each kind of read or work, in ms. */
type Times = Readonly<Record<string, readonly number[]>>;

const projectId = "p-00000001" as ProjectId;
const firstApp = `${projectId}-app-1` as AppId;
const nowMs = Date.UTC(2026, 11, 31, 12);
const clock: Clock = { ...systemClock, now: () => nowMs };
/** The number of replicas in each metered minute. */
const replicas = 1_000;
const minuteMs = 60_000;
const readings = 30;

/** `usage` */
export const usage: Benchmark<{ readonly apps: number; readonly rounds: number }> = {
  name: "usage",
  measures: "Costs, usage reports and metering",
  heading: "Usage",
  options: { apps: 1000, rounds: 7 },
  async run({ apps, rounds }, { t, print }) {
    const server = await startDatabaseServer(t);
    const url = await server.database("usage");
    await migrate({ url: new Secret(url), log: silentLog });
    const owner = await connectTo(t, url);
    const db = await openPlatformDatabase(t, url, 4);
    await fill(owner, apps);
    print("filled a year");
    const { rows } = await owner.query<{ days: string; bytes: string }>(
      "select (select count(*) from usage_days) as days, pg_database_size(current_database()) as bytes",
    );
    const [{ days, bytes } = { days: 0, bytes: 0 }] = rows;
    const times: Record<string, readonly number[]> = {};
    for (const [what, read] of readsOf(db))
      times[what] = await inRounds(readings, () => timed(read), { warmUps: 0 });
    print("measured what the API reads");
    Object.assign(times, await measureMetering(db, rounds));
    return {
      conditions: `A project with ${apps.toLocaleString("en")} apps used on every day of a year, and as much again in ten other projects: ${Number(days).toLocaleString("en")} daily totals, ${Math.round(Number(bytes) / 1e6)} MB.`,
      body: tableOf(times),
    };
  },
};

function tableOf(times: Times): string[] {
  const rows = Object.entries(times).map(([what, all]) => [
    what,
    milliseconds(median(all), 1),
    milliseconds(Math.max(...all), 1),
  ]);
  return table(["what", "p50", "max"], rows);
}
type Read = readonly [what: string, read: () => Promise<unknown>];

/** What the API and the platform itself read. */
function readsOf(db: Db): readonly Read[] {
  const queries = new UsageQueries({ db, clock });
  const statements = new StatementQueries({ db, clock });
  const year = { projectId, from: "2026-01-01", to: "2027-01-01" };
  const month = "2026-11";
  return [
    ["the cost of a month", () => queries.cost(projectId, month)],
    ["the cost of a month of one app", () => queries.costOfApp(projectId, firstApp, month)],
    ["the total that a budget check reads", () => costOfMonth(db, { projectId, month })],
    ["a year by app", () => queries.usage(year, "app")],
    ["a year by day", () => queries.usage(year, "day")],
    ["a year by compute type", () => queries.usage(year, "compute")],
    ["the statement of a month", () => statements.read(projectId, month)],
    ["the list of statements, none closed", () => statements.list(projectId)],
  ];
}

/** Meters one more minute of each of a thousand replicas in each round. */
async function measureMetering(db: Db, rounds: number): Promise<Times> {
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
  const store = new ReplicaStore(db);
  const ids = Array.from({ length: replicas }, (_, index) => `bench-${index + 1}` as ReplicaId);
  const count = replicas.toLocaleString("en");
  const oneRound = async (round: number): Promise<Record<string, number>> => {
    const seen = ids.map((replicaId) => ({ replicaId, at: nowMs + round * minuteMs }));
    return {
      [`recording that ${count} replicas run`]: await timed(() => store.seen(seen)),
      [`metering one minute for each of ${count} replicas`]: await timed(() => meter.turn()),
    };
  };
  return byName(await inRounds(rounds, oneRound, { warmUps: 0 }));
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
