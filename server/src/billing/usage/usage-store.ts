// Queries for the usage of projects and its cost, from sums by day and month. Takes no locks.
import { sql, type RawBuilder } from "kysely";
import { must } from "#lib/assert.ts";
import { shownAppId, type AppId, type ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { daysOf, nextPeriod, type Period } from "#billing/period.ts";

/**
 * The cost of a project or an app in a month (UTC) before coupons, in micro-units of the billing
 * account's currency.
 */
export async function costOfMonth(
  db: Db | Tx,
  query: { readonly projectId: ProjectId; readonly appId?: AppId; readonly month: Period },
): Promise<bigint> {
  const { projectId, appId, month } = query;
  const { from, to } = daysOf(month);
  const monthRows =
    appId === undefined
      ? sql`usage_project_days where day >= ${from} and day < ${to}`
      : sql`usage_months where period = ${month} and app_id = ${shownAppId(appId)}`;
  const { rows } = await sql<{ micros: string }>`
    select coalesce(sum(amount_micros), 0) as micros from ${monthRows} and project_id = ${projectId}`.execute(
    db,
  );
  return BigInt(must(rows[0], "a sum has a row").micros);
}

/** The groupings of usage. */
const groupings = ["app", "day", "compute"] as const;
export type Grouping = (typeof groupings)[number];

/**
 * Sums of usage. Times are in ms; the times of GPUs, cores and GB are multiplied by their numbers.
 * Builds have their own time for making environments, which the other times exclude.
 */
export type UsageSums = {
  readonly replicaMs: number;
  readonly gpuMs: number;
  readonly coreMs: number;
  readonly gbMs: number;
  readonly buildMs: number;
  readonly builds: number;
  /** The GB that storage held, multiplied by the time in ms, including the free GB. */
  readonly storageGbMs: number;
  readonly runMicros: bigint;
  readonly buildMicros: bigint;
  readonly storageMicros: bigint;
};

/**
 * Sums of one group; the grouping `compute` is also split by tier and pool. `appId` empty: the
 * usage of no app, such as storage.
 */
export type UsageGroup = UsageSums & {
  readonly appId: string | null;
  readonly day: string | null;
  readonly compute: string | null;
  readonly computeTier: string | null;
  readonly pool: string | null;
};

/** The days of a query, like 2026-01-31: `from` is included, `to` is not. */
export type UsageWindow = {
  readonly projectId: ProjectId;
  readonly appId?: AppId;
  readonly from: string;
  readonly to: string;
};

const groupColumns = {
  app: ["app_id"],
  day: ["day"],
  compute: ["compute", "compute_tier", "pool"],
} as const satisfies Record<Grouping, readonly string[]>;

/** Sums up the usage within a window. */
export async function readUsage(db: Db | Tx, window: UsageWindow): Promise<UsageSums> {
  const { rows } = await sql<SumsRow>`select ${sums} from ${rowsOf(window)}`.execute(db);
  return sumsOf(must(rows[0], "sums have a row"));
}

/** Sums of a window by group, ordered by the columns of the grouping. */
export async function readUsageBy(
  db: Db | Tx,
  window: UsageWindow,
  grouping: Grouping,
): Promise<UsageGroup[]> {
  const columns = sql.join(groupColumns[grouping].map((column) => sql.ref(column)));
  const from = grouping === "app" ? monthsAndDaysOf(window) : rowsOf(window);
  const { rows } = await sql<SumsRow & Partial<Record<string, string>>>`
    select ${columns}, ${sums} from ${from} group by ${columns} order by ${columns}`.execute(db);
  // A row has only the columns of the grouping.
  return rows.map((row) => ({
    ...sumsOf(row),
    appId: row["app_id"] ?? null,
    day: row["day"] ?? null,
    compute: row["compute"] ?? null,
    computeTier: row["compute_tier"] ?? null,
    pool: row["pool"] ?? null,
  }));
}

type SumsRow = Record<
  "replica_ms" | "gpu_ms" | "core_ms" | "gb_ms" | "build_ms" | "builds" | "storage_gb_ms",
  string
> &
  Record<"run_micros" | "build_micros" | "storage_micros", string>;

const sums = sql`
  coalesce(sum(ms) filter (where kind = 'run'), 0) as replica_ms,
  coalesce(sum(gpu_ms), 0) as gpu_ms,
  coalesce(sum(core_ms) filter (where kind = 'run'), 0) as core_ms,
  coalesce(sum(gb_ms) filter (where kind = 'run'), 0) as gb_ms,
  coalesce(sum(ms) filter (where kind = 'build'), 0) as build_ms,
  coalesce(sum(builds), 0) as builds,
  coalesce(sum(gb_ms) filter (where kind = 'storage'), 0) as storage_gb_ms,
  coalesce(sum(amount_micros) filter (where kind = 'run'), 0) as run_micros,
  coalesce(sum(amount_micros) filter (where kind = 'build'), 0) as build_micros,
  coalesce(sum(amount_micros) filter (where kind = 'storage'), 0) as storage_micros`;

/**
 * The rows of a window: an app has its own rows, and a project has rows that already sum up its
 * apps.
 */
function rowsOf({ projectId, appId, from, to }: UsageWindow): RawBuilder<unknown> {
  const days = sql`project_id = ${projectId} and day >= ${from} and day < ${to}`;
  return appId === undefined
    ? sql`usage_project_days where ${days}`
    : sql`usage_days where ${days} and app_id = ${shownAppId(appId)}`;
}

/** The rows of a window by app: months for its whole months, and days for the rest. */
function monthsAndDaysOf({ projectId, from, to }: UsageWindow): RawBuilder<unknown> {
  // The whole months are the ones from `first` on and before `end`.
  const first = from.endsWith("-01") ? from.slice(0, 7) : nextPeriod(from.slice(0, 7));
  const end = to.slice(0, 7);
  const columns = sql`app_id, kind, ms, gpu_ms, core_ms, gb_ms, builds, amount_micros`;
  // A window without a whole month is read as days only.
  const hasWholeMonth = first < end;
  const headTo = hasWholeMonth ? `${first}-01` : to;
  const tailFrom = hasWholeMonth ? `${end}-01` : to;
  return sql`(
    select ${columns} from usage_months where project_id = ${projectId} and period >= ${first} and period < ${end}
    union all
    select ${columns} from usage_days where project_id = ${projectId} and day >= ${from} and day < ${headTo}
    union all
    select ${columns} from usage_days where project_id = ${projectId} and day >= ${tailFrom} and day < ${to}) as used`;
}

/** The total cost of usage, in micro-units. */
export function costOf({ runMicros, buildMicros, storageMicros }: UsageSums): bigint {
  return runMicros + buildMicros + storageMicros;
}

function sumsOf(row: SumsRow): UsageSums {
  return {
    replicaMs: Number(row.replica_ms),
    gpuMs: Number(row.gpu_ms),
    coreMs: Number(row.core_ms),
    gbMs: Number(row.gb_ms),
    buildMs: Number(row.build_ms),
    builds: Number(row.builds),
    storageGbMs: Number(row.storage_gb_ms),
    storageMicros: BigInt(row.storage_micros),
    runMicros: BigInt(row.run_micros),
    buildMicros: BigInt(row.build_micros),
  };
}
