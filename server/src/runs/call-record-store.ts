// Writes records of plain calls and counts of omitted calls: many rows, one statement. Also has the
// conditions that select old rows of both kinds.
import { sql, type RawBuilder } from "kysely";
import type { Db } from "#store/database.ts";
import type { AppId } from "#lib/ids.ts";
import type { CallRecord } from "./call-record.ts";
import type { LeftOutCalls } from "./left-out.ts";

/** The writer that `CallRecords` uses. */
export function callRecordWriter(db: Db) {
  return {
    write: (records: readonly CallRecord[]) => insertCallRecords(db, records),
    writeLeftOut: (rows: readonly LeftOutCalls[]) => insertLeftOut(db, rows),
  };
}

/** Inserts records; skips records that exist already, when a write is repeated. */
async function insertCallRecords(db: Db, records: readonly CallRecord[]): Promise<void> {
  const column = <Value>(pick: (record: CallRecord) => Value): Value[] => records.map(pick);
  const times = (pick: (record: CallRecord) => number): string[] =>
    records.map((record) => new Date(pick(record)).toISOString());
  await sql`
    insert into calls (id, project_id, app_id, state, method, path, client_address, release_id, replica_id, status_code,
                       reason, is_websocket, webhook_endpoint, received_at, ended_at, line_ms, total_ms)
    select * from unnest(
      ${column((call) => call.runId)}::uuid[], ${column((call) => call.projectId)}::text[],
      ${column((call) => call.appId)}::text[], ${column((call) => call.state)}::text[],
      ${column((call) => call.method)}::text[], ${column((call) => call.path)}::text[],
      ${column((call) => call.clientAddress)}::text[], ${column((call) => call.releaseId)}::uuid[],
      ${column((call) => call.replicaId)}::text[], ${column((call) => call.statusCode)}::smallint[],
      ${column((call) => call.reason)}::text[], ${column((call) => call.isWebSocket)}::boolean[], ${column((call) => call.webhookEndpoint)}::text[],
      ${times((call) => call.receivedAt)}::timestamptz[], ${times((call) => call.endedAt)}::timestamptz[],
      ${column((call) => call.lineMs)}::real[], ${column((call) => call.totalMs)}::real[])
    on conflict (id) do nothing`.execute(db);
}

/** Inserts counts; skips counts that exist already, when a write is repeated. */
async function insertLeftOut(db: Db, rows: readonly LeftOutCalls[]): Promise<void> {
  const values = rows.map(({ id, projectId, appId, calls, latestAt }) => ({
    id,
    project_id: projectId,
    app_id: appId,
    calls,
    at: new Date(latestAt),
  }));
  await db
    .insertInto("calls_left_out")
    .values(values)
    .onConflict((conflict) => conflict.column("id").doNothing())
    .execute();
}

/**
 * How many calls of the app were omitted after `afterMicros` and until `untilMicros` inclusive,
 * both in microseconds since the epoch; null: unbounded. Uses the index `calls_left_out_by_app`.
 */
export async function countLeftOut(
  db: Db,
  appId: AppId,
  {
    afterMicros,
    untilMicros,
  }: { readonly afterMicros: number | null; readonly untilMicros: number | null },
): Promise<number> {
  const time = (micros: number): RawBuilder<Date> =>
    sql<Date>`to_timestamp(${micros}::numeric / 1000000)`;
  let query = db.selectFrom("calls_left_out").where("app_id", "=", appId);
  if (afterMicros !== null) query = query.where("at", ">", time(afterMicros));
  if (untilMicros !== null) query = query.where("at", "<=", time(untilMicros));
  const row = await query
    .select((select) => select.fn.sum<number | null>("calls").as("calls"))
    .executeTakeFirstOrThrow();
  // Without rows, the sum is null.
  return Number(row.calls ?? 0);
}

/**
 * The condition on `calls` that selects the app's calls that ended before `before`. They were also
 * received before `before`; the condition on `received_at` is there because it can use the index by
 * app.
 */
export function isOldCall(appId: AppId, before: Date): RawBuilder<unknown> {
  return sql`app_id = ${appId} and received_at < ${before} and ended_at < ${before}`;
}

/**
 * The condition on `calls_left_out` that selects the app's counts from before `before`. Uses the
 * index `calls_left_out_by_app`.
 */
export function isOldLeftOut(appId: AppId, before: Date): RawBuilder<unknown> {
  return sql`app_id = ${appId} and at < ${before}`;
}
