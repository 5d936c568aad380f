// Rows of deliveries, attempts and endpoints, as the members of a project see and change them.
import { sql, type RawBuilder } from "kysely";
import type { z } from "zod";
import type { oneWebhookDelivery } from "@slipway/contract/answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { DeliveryState } from "@slipway/contract/words.ts";
import type { DeliveryId, EndpointId, ProjectId, RunId } from "#lib/ids.ts";
import { changeOne, readRows, type Db, type Tx } from "#store/database.ts";

export type DeliveryRow = Awaited<ReturnType<typeof listDeliveryRows>>[number];

export type DeliveryFilter = {
  readonly projectId: ProjectId;
  readonly state?: DeliveryState | undefined;
  readonly endpointId?: EndpointId | undefined;
  readonly runId?: RunId | undefined;
  /** The number of the last row on the previous page; selects older rows. */
  readonly before?: number | undefined;
  readonly limit: number;
};

/** A page of a project's deliveries, the newest first. No locks. */
export async function listDeliveryRows(
  db: Db,
  { projectId, state, endpointId, runId, before, limit }: DeliveryFilter,
) {
  let rows = deliveriesOf(db, projectId);
  if (state !== undefined) rows = rows.where("state", "=", state);
  if (endpointId !== undefined) rows = rows.where("endpoint_id", "=", endpointId);
  if (runId !== undefined) rows = rows.where("run_id", "=", runId);
  if (before !== undefined) rows = rows.where("number", "<", before);
  return await rows.orderBy("number", "desc").limit(limit).execute();
}

/** A delivery of the project, or undefined. No locks. */
export async function readDeliveryRow(
  db: Db,
  projectId: ProjectId,
  id: DeliveryId,
): Promise<DeliveryRow | undefined> {
  return await deliveriesOf(db, projectId).where("id", "=", id).executeTakeFirst();
}

function deliveriesOf(db: Db, projectId: ProjectId) {
  const isPaused = sql<boolean>`exists (select from webhook_endpoints where id = endpoint_id and paused_at is not null)`;
  return db
    .selectFrom("webhook_deliveries")
    .select([
      "id",
      "number",
      "app_id as appId",
      "run_id as runId",
      "endpoint_id as endpointId",
      "url",
    ])
    .select([
      "status_code as statusCode",
      "content_type as contentType",
      "body_bytes as bodyBytes",
      "state",
      "reason",
    ])
    .select(["attempts", "created_at as createdAt", "due_at as dueAt", "ended_at as endedAt"])
    .select([sql<boolean>`body is not null`.as("hasBody"), isPaused.as("isPaused")])
    .where("project_id", "=", projectId);
}

/** An attempt as the API shows it. */
export type AttemptItem = Sent<z.infer<typeof oneWebhookDelivery>["attempts"][number]>;
/** An attempt as it is read, with the bytes of the answer. */
type ListedAttempt = Omit<AttemptItem, "answer"> & { readonly answer: Buffer | null };

/** The last attempts of a delivery, the newest first, up to `limit`. No locks. */
export async function listAttemptRows(
  db: Db,
  id: DeliveryId,
  limit: number,
): Promise<ListedAttempt[]> {
  return await readRows<ListedAttempt>(db)`
    select number, started_at as "startedAt", duration_ms as "durationMs", status_code as "statusCode", reason, answer
      from webhook_attempts where delivery_id = ${id} order by number desc limit ${limit}`;
}

/** Which ended deliveries to send again. `from` and `to` bound the time of their creation. */
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
 * Makes ended deliveries whose body is still stored due again, the oldest first, and restarts their
 * schedule. Returns the endpoint of each. Raises the epoch, so that earlier holders cannot write.
 * Skips locked rows.
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

export type EndpointRow = Awaited<ReturnType<typeof listEndpointRows>>[number];

/** The upper bound for counting an endpoint's waiting deliveries. */
const waitingCountMax = 10_000;

/** The last endpoint of the previous page. */
export type EndpointCursor = { readonly createdMicros: number; readonly id: EndpointId };

/** A page of a project's endpoints, the newest first by time and id. No locks. */
export async function listEndpointRows(
  db: Db,
  {
    projectId,
    before,
    limit,
  }: { projectId: ProjectId; before: EndpointCursor | undefined; limit: number },
) {
  let rows = endpointsOf(db, projectId);
  if (before !== undefined) {
    const at = sql`timestamptz 'epoch' + ${before.createdMicros} * interval '1 microsecond'`;
    rows = rows.where(sql<boolean>`(created_at, id) < (${at}, ${before.id}::uuid)`);
  }
  return await rows.orderBy("created_at", "desc").orderBy("id", "desc").limit(limit).execute();
}

/** An endpoint of the project, or undefined. No locks. */
export async function readEndpointRow(
  db: Db,
  projectId: ProjectId,
  id: EndpointId,
): Promise<EndpointRow | undefined> {
  return await endpointsOf(db, projectId).where("id", "=", id).executeTakeFirst();
}

/**
 * The endpoints of a project; their `url` has no query. `createdMicros` is the time of creation in
 * microseconds, more exact than a Date. `waiting` counts deliveries up to `waitingCountMax`.
 */
function endpointsOf(db: Db, projectId: ProjectId) {
  const waiting = sql<number>`(
    select count(*) from (select from webhook_deliveries
       where endpoint_id = endpoint.id and state = 'pending' and lease_holder is null
       limit ${waitingCountMax}) as counted)`;
  return db
    .selectFrom("webhook_endpoints as endpoint")
    .select([
      "id",
      "project_id as projectId",
      "url",
      "created_at as createdAt",
      "last_success_at as lastSuccessAt",
    ])
    .select([
      "last_failure_at as lastFailureAt",
      "last_failure as lastFailure",
      "failing_since as failingSince",
    ])
    .select(["paused_at as pausedAt", waiting.as("waiting")])
    .select(sql<number>`(extract(epoch from created_at) * 1000000)::bigint`.as("createdMicros"))
    .where("project_id", "=", projectId);
}

/** Pauses an endpoint. False when it is already paused or does not exist. */
export async function pauseRow(tx: Tx, projectId: ProjectId, id: EndpointId): Promise<boolean> {
  return await changeOne(tx)`
    update webhook_endpoints set paused_at = clock_timestamp()
     where id = ${id} and project_id = ${projectId} and paused_at is null`;
}

/**
 * Resumes an endpoint and resets its failures, so that only further days of failures pause it
 * again. False when it is not paused or does not exist.
 */
export async function resumeRow(tx: Tx, projectId: ProjectId, id: EndpointId): Promise<boolean> {
  return await changeOne(tx)`
    update webhook_endpoints set paused_at = null, failing_since = null
     where id = ${id} and project_id = ${projectId} and paused_at is not null`;
}

export type PausedRow = Pick<EndpointRow, "id" | "projectId" | "url" | "lastFailure">;

/**
 * Pauses up to `limit` endpoints that have failed for `failingMs` without a success, first those
 * that have failed for the longest time. The latest failure must be that long after the first,
 * so that an endpoint that got no deliveries meanwhile is not paused. Skips locked rows.
 */
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

/** The condition that `condition` makes of the value; no condition when the value is undefined. */
function when<Value>(
  value: Value | undefined,
  condition: (value: Value) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  return value === undefined ? sql`` : condition(value);
}
