// Writes records of plain calls: many rows, one statement.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";
import type { CallRecord } from "./call-record.ts";

/** Adds records; one that is there already (a repeated write) is left as it is. */
export async function insertCallRecords(db: Db, records: readonly CallRecord[]): Promise<void> {
  const column = <Value>(pick: (record: CallRecord) => Value): Value[] => records.map(pick);
  const times = (pick: (record: CallRecord) => number): string[] =>
    records.map((record) => new Date(pick(record)).toISOString());
  await sql`
    insert into calls (id, project_id, app_id, state, method, path, client_address, release_id, replica_id, status_code,
                       is_websocket, webhook_endpoint, received_at, ended_at, line_ms, total_ms)
    select * from unnest(
      ${column((one) => one.runId)}::uuid[], ${column((one) => one.projectId)}::text[],
      ${column((one) => one.appId)}::text[], ${column((one) => one.state)}::text[],
      ${column((one) => one.method)}::text[], ${column((one) => one.path)}::text[],
      ${column((one) => one.clientAddress)}::text[], ${column((one) => one.releaseId)}::uuid[],
      ${column((one) => one.replicaId)}::text[], ${column((one) => one.statusCode)}::smallint[],
      ${column((one) => one.isWebSocket)}::boolean[], ${column((one) => one.webhookEndpoint)}::text[],
      ${times((one) => one.receivedAt)}::timestamptz[], ${times((one) => one.endedAt)}::timestamptz[],
      ${column((one) => one.lineMs)}::real[], ${column((one) => one.totalMs)}::real[])
    on conflict (id) do nothing`.execute(db);
}
