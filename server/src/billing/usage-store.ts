// What projects have used and what it costs, from sums by day. Nothing here takes a lock.
import { sql, type RawBuilder } from "kysely";
import { must } from "#lib/assert.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { daysOf, type Period } from "./period.ts";

/** What a project, or one app of it, costs in a month (UTC) before coupons, in micro-units of the billing account's currency. */
export async function costOfMonth(
  db: Db | Tx,
  { projectId, appId, month }: { readonly projectId: ProjectId; readonly appId?: AppId; readonly month: Period },
): Promise<bigint> {
  const { from, to } = daysOf(month);
  let days = db
    .selectFrom("usage_days")
    .select(sql<string>`coalesce(sum(amount_micros), 0)`.as("micros"))
    .where("project_id", "=", projectId)
    .where("day", ">=", from)
    .where("day", "<", to);
  if (appId !== undefined) days = days.where("app_id", "=", appId);
  return BigInt((await days.executeTakeFirstOrThrow()).micros);
}

/** What each app of a project that has used something in a month (UTC) costs before coupons, in micro-units. */
export async function costsOfApps(
  db: Db | Tx,
  { projectId, month }: { readonly projectId: ProjectId; readonly month: Period },
): Promise<Map<AppId, bigint>> {
  const { from, to } = daysOf(month);
  const rows = await db
    .selectFrom("usage_days")
    .select(["app_id", sql<string>`sum(amount_micros)`.as("micros")])
    .where("project_id", "=", projectId)
    .where("day", ">=", from)
    .where("day", "<", to)
    .groupBy("app_id")
    .execute();
  return new Map(rows.map(({ app_id: appId, micros }) => [appId as AppId, BigInt(micros)]));
}

/** What usage is summed up by. */
export const groupings = ["app", "day", "compute"] as const;
export type Grouping = (typeof groupings)[number];

/** Sums of usage. Times in ms; of builds the time that environments took, which the other times do not hold. */
export type UsageSums = {
  readonly replicaMs: number;
  readonly gpuMs: number;
  readonly coreMs: number;
  readonly gbMs: number;
  readonly buildMs: number;
  readonly builds: number;
  readonly runMicros: bigint;
  readonly buildMicros: bigint;
};

/** Sums of one group; of the grouping `compute` for each tier and pool too. */
export type UsageGroup = UsageSums & {
  readonly appId: string | null;
  readonly day: string | null;
  readonly compute: string | null;
  readonly computeTier: string | null;
  readonly pool: string | null;
};

/** From the first day up to before the second. */
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

/** Sums of a window as a whole. */
export async function readUsage(db: Db, window: UsageWindow): Promise<UsageSums> {
  const { rows } = await sql<SumsRow>`select ${sums} from usage_days where ${within(window)}`.execute(db);
  return sumsOf(must(rows[0], "sums have a row"));
}

/** Sums of a window by group, in the order of its columns. */
export async function readUsageBy(db: Db, window: UsageWindow, grouping: Grouping): Promise<UsageGroup[]> {
  const columns = sql.join(groupColumns[grouping].map((column) => sql.ref(column)));
  const { rows } = await sql<SumsRow & Partial<Record<string, string>>>`
    select ${columns}, ${sums} from usage_days where ${within(window)} group by ${columns} order by ${columns}`.execute(
    db,
  );
  return rows.map((row) => ({
    ...sumsOf(row),
    ...{ appId: row["app_id"] ?? null, day: row["day"] ?? null, compute: row["compute"] ?? null },
    ...{ computeTier: row["compute_tier"] ?? null, pool: row["pool"] ?? null },
  }));
}

type SumsRow = Record<"replica_ms" | "gpu_ms" | "core_ms" | "gb_ms" | "build_ms" | "builds", string> &
  Record<"run_micros" | "build_micros", string>;

const sums = sql`
  coalesce(sum(ms) filter (where kind = 'run'), 0) as replica_ms,
  coalesce(sum(gpu_ms), 0) as gpu_ms,
  coalesce(sum(core_ms) filter (where kind = 'run'), 0) as core_ms,
  coalesce(sum(gb_ms) filter (where kind = 'run'), 0) as gb_ms,
  coalesce(sum(ms) filter (where kind = 'build'), 0) as build_ms,
  coalesce(sum(builds), 0) as builds,
  coalesce(sum(amount_micros) filter (where kind = 'run'), 0) as run_micros,
  coalesce(sum(amount_micros) filter (where kind = 'build'), 0) as build_micros`;

function within({ projectId, appId, from, to }: UsageWindow): RawBuilder<unknown> {
  const app = appId === undefined ? sql`true` : sql`app_id = ${appId}`;
  return sql`project_id = ${projectId} and day >= ${from} and day < ${to} and ${app}`;
}

function sumsOf(row: SumsRow): UsageSums {
  return {
    ...{ replicaMs: Number(row.replica_ms), gpuMs: Number(row.gpu_ms), coreMs: Number(row.core_ms) },
    ...{ gbMs: Number(row.gb_ms), buildMs: Number(row.build_ms), builds: Number(row.builds) },
    ...{ runMicros: BigInt(row.run_micros), buildMicros: BigInt(row.build_micros) },
  };
}
