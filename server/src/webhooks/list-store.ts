// Rows of deliveries, attempts and endpoints, as the members of a project see and change them.
import { sql, type RawBuilder } from "kysely";
import type { z } from "zod";
import type { oneWebhookDelivery } from "@slipway/contract/answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { DeliveryState } from "@slipway/contract/words.ts";
import type { DeliveryId, EndpointId, ProjectId, RunId } from "#lib/ids.ts";
import { changeOne, readRow, readRows, type Db, type Tx } from "#store/database.ts";
import type { NewDelivery } from "./delivery.ts";

const deliveryColumns = sql`
  id, number, app_id as "appId", run_id as "runId", endpoint_id as "endpointId", url, status_code as "statusCode",
  content_type as "contentType", body_bytes as "bodyBytes", body is not null as "hasBody", state, reason, attempts,
  created_at as "createdAt", due_at as "dueAt", ended_at as "endedAt",
  exists (select from webhook_endpoints where id = endpoint_id and paused_at is not null) as "isPaused"`;

export type DeliveryRow = Omit<NewDelivery, "projectId" | "secret" | "body"> & {
  readonly id: DeliveryId;
  readonly number: number;
  readonly endpointId: EndpointId;
  readonly hasBody: boolean;
  readonly state: DeliveryState;
  readonly reason: string | null;
  readonly attempts: number;
  readonly createdAt: Date;
  readonly dueAt: Date;
  readonly endedAt: Date | null;
  readonly isPaused: boolean;
};

export type DeliveryFilter = {
  readonly projectId: ProjectId;
  readonly state?: DeliveryRow["state"] | undefined;
  readonly endpointId?: EndpointId | undefined;
  readonly runId?: RunId | undefined;
  /** A cursor: the number of the last row on the previous page; selects older ones. */
  readonly before?: number | undefined;
  readonly limit: number;
};

/** Newest first by number. No locks. */
export async function listDeliveryRows(db: Db, filter: DeliveryFilter): Promise<DeliveryRow[]> {
  const { projectId, state, endpointId, runId, before, limit } = filter;
  return await readRows<DeliveryRow>(db)`
    select ${deliveryColumns} from webhook_deliveries
     where project_id = ${projectId}
           ${when(state, (value) => sql`and state = ${value}`)}
           ${when(endpointId, (value) => sql`and endpoint_id = ${value}`)}
           ${when(runId, (value) => sql`and run_id = ${value}`)}
           ${when(before, (value) => sql`and number < ${value}`)}
     order by number desc limit ${limit}`;
}

/** A delivery of the project, or undefined. No locks. */
export async function readDeliveryRow(db: Db, projectId: ProjectId, id: DeliveryId): Promise<DeliveryRow | undefined> {
  return await readRow<DeliveryRow>(db)`
    select ${deliveryColumns} from webhook_deliveries where id = ${id} and project_id = ${projectId}`;
}

export type AttemptItem = Sent<z.infer<typeof oneWebhookDelivery>["attempts"][number]>;
type AttemptRow = Omit<AttemptItem, "answer"> & { readonly answer: Buffer | null };

/** The latest first, up to `limit`. No locks. */
export async function listAttemptRows(db: Db, id: DeliveryId, limit: number): Promise<AttemptRow[]> {
  return await readRows<AttemptRow>(db)`
    select number, started_at as "startedAt", duration_ms as "durationMs", status_code as "statusCode", reason, answer
      from webhook_attempts where delivery_id = ${id} order by number desc limit ${limit}`;
}

/** Which ended deliveries to send again. */
export type ReplayFilter = {
  readonly projectId: ProjectId;
  readonly id?: DeliveryId | undefined;
  readonly state?: "delivered" | "failed" | undefined;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
  readonly endpointId?: EndpointId | undefined;
  readonly limit: number;
};

/**
 * Makes ended deliveries with a kept body due again, oldest first, and restarts their schedule. Returns the endpoint of
 * each. Raises the epoch, so that earlier holders cannot write. Skips locked rows.
 */
export async function replayRows(tx: Tx, filter: ReplayFilter): Promise<EndpointId[]> {
  const { projectId, id, state, from, to, endpointId, limit } = filter;
  const { rows } = await sql<{ endpointId: EndpointId }>`
    with chosen as (
      select id from webhook_deliveries
       where project_id = ${projectId} and state <> 'pending' and body is not null
             ${when(id, (value) => sql`and id = ${value}`)}
             ${when(state, (value) => sql`and state = ${value}`)}
             ${when(endpointId, (value) => sql`and endpoint_id = ${value}`)}
             ${when(from, (value) => sql`and created_at >= ${value}`)}
             ${when(to, (value) => sql`and created_at < ${value}`)}
       order by number limit ${limit} for update skip locked
    )
    update webhook_deliveries as replayed
       set state = 'pending', reason = null, ended_at = null, schedule_attempts = 0, due_at = clock_timestamp(),
           lease_epoch = lease_epoch + 1
      from chosen where replayed.id = chosen.id
    returning replayed.endpoint_id as "endpointId"`.execute(tx);
  return rows.map((row) => row.endpointId);
}

export type EndpointRow = {
  readonly id: EndpointId;
  readonly projectId: ProjectId;
  /** Without query. */
  readonly url: string;
  readonly createdAt: Date;
  /** Like `createdAt`, in microseconds since the epoch, which a Date cannot represent. */
  readonly createdMicros: number;
  readonly lastSuccessAt: Date | null;
  readonly lastFailureAt: Date | null;
  readonly lastFailure: string | null;
  readonly failingSince: Date | null;
  readonly pausedAt: Date | null;
  /** Waiting deliveries, counted up to `waitingCountMax`. */
  readonly waiting: number;
};

/** The upper bound for counting an endpoint's waiting deliveries. */
const waitingCountMax = 10_000;

const endpointColumns = sql`
  endpoint.id, endpoint.project_id as "projectId", endpoint.url, endpoint.created_at as "createdAt",
  (extract(epoch from endpoint.created_at) * 1000000)::bigint as "createdMicros",
  endpoint.last_success_at as "lastSuccessAt", endpoint.last_failure_at as "lastFailureAt",
  endpoint.last_failure as "lastFailure", endpoint.failing_since as "failingSince", endpoint.paused_at as "pausedAt",
  (select count(*) from (select from webhook_deliveries
     where endpoint_id = endpoint.id and state = 'pending' and lease_holder is null
     limit ${waitingCountMax}) as counted) as waiting`;

export type EndpointCursor = { readonly createdMicros: number; readonly id: EndpointId };

/** Newest first by time and id. No locks. */
export async function listEndpointRows(
  db: Db,
  { projectId, before, limit }: { projectId: ProjectId; before: EndpointCursor | undefined; limit: number },
): Promise<EndpointRow[]> {
  const isOlder = ({ createdMicros, id }: EndpointCursor): RawBuilder<unknown> =>
    sql`and (created_at, id) < (timestamptz 'epoch' + ${createdMicros} * interval '1 microsecond', ${id}::uuid)`;
  return await readRows<EndpointRow>(db)`
    select ${endpointColumns} from webhook_endpoints as endpoint
     where project_id = ${projectId} ${when(before, isOlder)}
     order by created_at desc, id desc limit ${limit}`;
}

/** An endpoint of the project, or undefined. No locks. */
export async function readEndpointRow(db: Db, projectId: ProjectId, id: EndpointId): Promise<EndpointRow | undefined> {
  return await readRow<EndpointRow>(db)`
    select ${endpointColumns} from webhook_endpoints as endpoint
     where id = ${id} and project_id = ${projectId}`;
}

/** False when it is already paused or does not exist. */
export async function pauseRow(tx: Tx, projectId: ProjectId, id: EndpointId): Promise<boolean> {
  return await changeOne(tx)`
    update webhook_endpoints set paused_at = clock_timestamp()
     where id = ${id} and project_id = ${projectId} and paused_at is null`;
}

/** Resets its failures, so that it has days again. False when it is not paused or does not exist. */
export async function resumeRow(tx: Tx, projectId: ProjectId, id: EndpointId): Promise<boolean> {
  return await changeOne(tx)`
    update webhook_endpoints set paused_at = null, failing_since = null
     where id = ${id} and project_id = ${projectId} and paused_at is not null`;
}

export type PausedRow = Pick<EndpointRow, "id" | "projectId" | "url" | "lastFailure">;

/** Pauses up to `limit` endpoints whose failures span `failingMs` without a success, the longest first. */
export async function pauseFailing(
  tx: Tx,
  { failingMs, limit }: { failingMs: number; limit: number },
): Promise<PausedRow[]> {
  return await readRows<PausedRow>(tx)`
    with failing as (
      select id from webhook_endpoints
       where failing_since is not null and paused_at is null
         and failing_since < clock_timestamp() - ${failingMs} * interval '1 millisecond'
         and last_failure_at >= failing_since + ${failingMs} * interval '1 millisecond'
       order by failing_since limit ${limit} for no key update skip locked
    )
    update webhook_endpoints as paused set paused_at = clock_timestamp()
      from failing where paused.id = failing.id
    returning paused.id, paused.project_id as "projectId", paused.url, paused.last_failure as "lastFailure"`;
}

function when<Value>(value: Value | undefined, condition: (value: Value) => RawBuilder<unknown>): RawBuilder<unknown> {
  return value === undefined ? sql`` : condition(value);
}
