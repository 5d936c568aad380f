// Queries for lists of runs: async ones from `runs`, plain calls from `calls`, both ordered by
// arrival. From each table a query reads at most one page, in the order of an index, so the cost
// does not depend on the length of the list.
import { sql, type RawBuilder, type Selectable } from "kysely";
import type { RunState } from "@slipway/contract/words.ts";
import { timeOfMicros } from "#audit/instant.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import type { CollectedAnswer, ContentFields } from "#proxy/answer-collector.ts";
import type { Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import { isFinal } from "./run-states.ts";

/** A position in time order; microseconds since the epoch, the precision of the database. */
export type RunCursor = { readonly atMicros: number; readonly id: RunId };

type RunColumn =
  | "id"
  | "app_id"
  | "state"
  | "method"
  | "path"
  | "client_address"
  | "replica_id"
  | "attempt"
  | "status_code"
  | "reason"
  | "webhook_endpoint"
  | "accepted_at"
  | "queued_at"
  | "started_at"
  | "ended_at"
  | "cancel_requested_at"
  | "redriven_as";

/**
 * A run of either kind. `line_ms` and `total_ms` are null for async runs, since their timestamps
 * tell the durations.
 */
export type RunRow = Pick<Selectable<Tables["runs"]>, RunColumn> & {
  readonly is_async: boolean;
  /** True for the run of a file. */
  readonly is_file_run: boolean;
  readonly is_websocket: boolean;
  readonly line_ms: number | null;
  readonly total_ms: number | null;
  /** The time `accepted_at`, in microseconds. */
  readonly at_micros: number;
  /** When the replica of the latest attempt started; null: there is none, or it is not known. */
  readonly replica_started_at: Date | null;
  /** The region of that replica. */
  readonly region: string | null;
  /** The number of the release that ran each start, in order. */
  readonly releases: readonly number[];
};

/** Which runs of an app a page shows. Excludes `from` itself. */
export type RunsWanted = {
  /** True: no plain calls. */
  readonly asyncOnly: boolean;
  /** The state of the runs; null: any. */
  readonly status: RunState | null;
  /** The page begins after this position; null: with the newest run. */
  readonly from: RunCursor | null;
  readonly limit: number;
};

/**
 * A condition on the table `runs` that selects dead runs; matches the text of the index
 * `runs_dead`.
 */
export const isDead = sql<boolean>`(state in ('failure', 'timeout') and redriven_as is null and request_deleted_at is null)`;

/**
 * Runs and calls of an app, newest first by time and id. Uses the indexes `runs_by_app`,
 * `runs_live`, `runs_not_successful` and their counterparts for calls.
 */
export async function listRuns(db: Db, appId: AppId, query: RunsWanted): Promise<RunRow[]> {
  const { asyncOnly, status, from, limit } = query;
  const whereRun = sql`app_id = ${appId} and ${runStateIs(status)} and ${isBefore("accepted_at", from)}`;
  const whereCall = sql`app_id = ${appId} and ${stateIs(status)} and ${isBefore("received_at", from)}`;
  const runs = sql`(select ${runColumns} from runs where ${whereRun} order by accepted_at desc, id desc limit ${limit})`;
  const calls = sql`(select ${callColumns} from calls where ${whereCall} order by received_at desc, id desc limit ${limit})`;
  // A plain call is stored only after its end.
  const mayBeOfCall = status === null || isFinal(status);
  const hasCalls = mayBeOfCall && !asyncOnly;
  const both = hasCalls ? sql`${runs} union all ${calls}` : runs;
  const { rows } = await shown(both, limit).execute(db);
  return rows;
}

/** Dead runs of an app, newest first by time and id. Uses the index `runs_dead`. */
export async function listDead(
  db: Db,
  appId: AppId,
  wanted: {
    readonly status: "failure" | "timeout" | null;
    readonly from: RunCursor | null;
    readonly limit: number;
  },
): Promise<RunRow[]> {
  const { status, from, limit } = wanted;
  const where = sql`app_id = ${appId} and ${isDead} and ${stateIs(status)} and ${isBefore("accepted_at", from)}`;
  const dead = sql`(select ${runColumns} from runs where ${where} order by accepted_at desc, id desc limit ${limit})`;
  const { rows } = await shown(dead, limit).execute(db);
  return rows;
}

/** One run of an app, of either kind; undefined: there is none. */
export async function readRun(db: Db, appId: AppId, runId: RunId): Promise<RunRow | undefined> {
  const runs = sql`(select ${runColumns} from runs where id = ${runId} and app_id = ${appId})`;
  const calls = sql`(select ${callColumns} from calls where id = ${runId} and app_id = ${appId})`;
  const { rows } = await shown(sql`${runs} union all ${calls}`, 2).execute(db);
  // If both tables have the id, the async run wins.
  return rows.toSorted(asyncFirst)[0];
}

/** A kept answer; `body` null: it was too long to keep. */
export type KeptResult = Omit<CollectedAnswer, "status"> & { readonly statusCode: number };

/** The kept answer of a run; undefined: there is none. */
export async function readResult(db: Db, runId: RunId): Promise<KeptResult | undefined> {
  const row = await db
    .selectFrom("run_results")
    .selectAll()
    .where("run_id", "=", runId)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { status_code: statusCode, content_type: contentType, body, body_bytes: bodyBytes } = row;
  return {
    statusCode,
    contentType,
    contentFields: row.content_fields as ContentFields | null,
    body,
    bodyBytes,
  };
}

/** The columns from which `shown` makes a `RunRow`, of an async run. */
const runColumns = sql`
  id, true as is_async, app_id, state, method, path, client_address, replica_id, attempt, status_code, reason,
  webhook_endpoint, accepted_at, queued_at, started_at, ended_at, cancel_requested_at, redriven_as,
  build_id is not null as is_file_run, false as is_websocket, null::real as line_ms, null::real as total_ms, started_release_ids as release_ids`;

/**
 * The same columns of a plain call, which was sent once, to a replica of one release, or reached no
 * replica.
 */
const callColumns = sql`
  id, false as is_async, app_id, state, method, path, client_address, replica_id, 1::smallint as attempt, status_code,
  reason, webhook_endpoint, received_at as accepted_at, null::timestamptz as queued_at,
  null::timestamptz as started_at, ended_at, null::timestamptz as cancel_requested_at, null::uuid as redriven_as,
  false as is_file_run, is_websocket, line_ms, total_ms, case when replica_id is not null then array[release_id] else '{}' end as release_ids`;

/** Rows of both kinds in order, with the known data of their replicas. */
function shown(rows: RawBuilder<unknown>, limit: number): RawBuilder<RunRow> {
  return sql<RunRow>`
    with page as (select * from (${rows}) as both_kinds order by accepted_at desc, id desc limit ${limit})
    select page.*, (extract(epoch from page.accepted_at) * 1000000)::bigint as at_micros,
           replicas.started_at as replica_started_at, replicas.region,
           (select coalesce(json_agg(releases.number order by start_number), '[]')
              from unnest(release_ids) with ordinality as starts (id, start_number) join releases using (id)) as releases
      from page left join replicas on replicas.id = page.replica_id
     order by page.accepted_at desc, page.id desc`;
}

/** States are literals in the statement: the planner can use a partial index only then. */
function stateIs(state: RunState | null): RawBuilder<boolean> {
  return state === null ? sql`true` : sql`state = ${sql.lit(state)}`;
}

/** Like `stateIs`; for states before the end, also names the condition of the index `runs_live`. */
function runStateIs(state: RunState | null): RawBuilder<boolean> {
  if (state === null || isFinal(state)) return stateIs(state);
  return sql`${stateIs(state)} and ended_at is null`;
}

/** The condition that a row is older than `from`; null: every row fulfills it. */
function isBefore(
  column: "accepted_at" | "received_at",
  from: RunCursor | null,
): RawBuilder<boolean> {
  if (from === null) return sql`true`;
  return sql`(${sql.ref(column)}, id) < (${timeOfMicros(from.atMicros)}::timestamptz, ${from.id}::uuid)`;
}

function asyncFirst(left: RunRow, right: RunRow): number {
  return Number(right.is_async) - Number(left.is_async);
}

/** Returns which of these runs have ended, in any order. Locks no rows. */
export async function readEndedRuns(db: Db, ids: readonly RunId[]): Promise<readonly RunId[]> {
  const rows = await db
    .selectFrom("runs")
    .select("id")
    .where("id", "in", ids)
    .where("ended_at", "is not", null)
    .execute();
  return rows.map(({ id }) => id);
}
