// Inserts the rows of deliveries, finds and claims those that wait, and updates them after an
// attempt. Every change of a held row names the epoch of its lease. The database's clock decides
// what is due and when a lease ends.
import { sql } from "kysely";
import type { DeliveryState } from "@slipway/contract/words.ts";
import type { DeliveryId, EndpointId, ProjectId } from "#lib/ids.ts";
import { readRows, type Db, type Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { ownerKey } from "#store/project-owner-store.ts";
import type { NewDelivery } from "./delivery.ts";

/** The columns of a new row. */
export type NewDeliveryRow = Omit<NewDelivery, "secret"> & {
  readonly id: DeliveryId;
  readonly endpointId: EndpointId;
  readonly endpointUrl: string;
  readonly secretSealed: string | null;
  /** Why the delivery failed before any attempt; null: it is to be sent. */
  readonly failedReason: string | null;
};

/** The holder and the duration of a lease. */
export type Holder = { readonly holder: string; readonly leaseMs: number };

/**
 * A body above this size is a separate parameter. As an element of an array it would be sent as
 * hexadecimal text, which is twice as long.
 */
const largeBytes = 32 * 1024;

/** Inserts rows, and the endpoints that are not stored yet, in one statement. */
export async function addRows(tx: Tx, rows: readonly NewDeliveryRow[]): Promise<void> {
  const column = <T>(pick: (row: NewDeliveryRow) => T): T[] => rows.map((row) => pick(row));
  const isLarge = (row: NewDeliveryRow): boolean => (row.body?.length ?? 0) > largeBytes;
  // The statement adds a row of nulls to these, since `values` needs at least one row.
  const large = rows
    .filter((row) => isLarge(row))
    .map((row) => sql`(${row.id}::uuid, ${row.body}::bytea)`);
  await sql`
    with large (id, body) as (
      values ${sql.join([sql`(null::uuid, null::bytea)`, ...large])}
    ), given as (
      select * from unnest(
        ${column((row) => row.id)}::uuid[], ${column((row) => row.projectId)}::text[],
        ${column((row) => row.appId)}::text[], ${column((row) => row.runId)}::uuid[],
        ${column((row) => row.endpointId)}::uuid[], ${column((row) => row.endpointUrl)}::text[],
        ${column((row) => row.url)}::text[], ${column((row) => row.secretSealed)}::text[],
        ${column((row) => row.statusCode)}::smallint[], ${column((row) => row.contentType)}::text[],
        ${column((row) => (row.contentFields === null ? null : toJson(row.contentFields)))}::jsonb[],
        ${column((row) => (isLarge(row) ? null : row.body))}::bytea[], ${column((row) => row.bodyBytes)}::bigint[],
        ${column((row) => row.failedReason)}::text[]
      ) with ordinality as given (id, project_id, app_id, run_id, endpoint_id, endpoint_url, url, secret_sealed, status_code,
                  content_type, content_fields, body, body_bytes, failed_reason, row_position)
    ), known as (
      -- In order, so that two transactions that add the same endpoints do not wait for each other.
      insert into webhook_endpoints (id, project_id, url, created_at)
      select distinct on (endpoint_id) endpoint_id, project_id, endpoint_url, clock_timestamp() from given
       order by endpoint_id
      on conflict (id) do nothing
    )
    insert into webhook_deliveries (id, project_id, app_id, run_id, endpoint_id, url, secret_sealed, status_code,
                                    content_type, content_fields, body, body_bytes, state, reason, created_at, due_at, ended_at)
    select id, project_id, app_id, run_id, endpoint_id, url, secret_sealed, status_code, content_type, content_fields,
           coalesce(body, (select body from large where large.id = given.id)), body_bytes,
           case when failed_reason is null then 'pending' else 'failed' end, failed_reason,
           clock_timestamp(), clock_timestamp(), case when failed_reason is not null then clock_timestamp() end
      from given order by row_position`.execute(tx);
}

/** Notifies every platform, on commit, that these endpoints have deliveries that nobody holds. */
export async function tellWaiting(tx: Tx, endpointIds: readonly EndpointId[]): Promise<void> {
  await sql`select pg_notify('deliveries', id) from unnest(${[...endpointIds]}::text[]) as waiting (id)`.execute(
    tx,
  );
}

/**
 * The delivery that is due first, of the deliveries that wait for an endpoint. `waitMs` is negative
 * once the delivery is due.
 */
export type Head = {
  readonly endpointId: EndpointId;
  readonly projectId: ProjectId;
  /** The key of the owner to whom the project counts: the projects of one owner share slots. */
  readonly ownerKey: string;
  readonly url: string;
  readonly waitMs: number;
  readonly isPaused: boolean;
};

const headColumns = sql`
  head.endpoint_id as "endpointId", head.project_id as "projectId", head.url,
  ${ownerKey(sql`head.project_id`)} as "ownerKey",
  (extract(epoch from head.due_at - clock_timestamp()) * 1000)::float8 as "waitMs",
  endpoint.paused_at is not null as "isPaused"`;

/**
 * The heads of up to `limit` endpoints whose ids are greater than `after`, in the order of the ids.
 * Each step of the recursion finds the next endpoint, so that one index lookup per endpoint is
 * enough, however many deliveries wait. No locks.
 */
export async function listHeads(
  db: Db,
  { after, limit }: { after: EndpointId; limit: number },
): Promise<Head[]> {
  return await readRows<Head>(db)`
    with recursive heads as (
      (select endpoint_id, due_at, project_id, url from webhook_deliveries
        where state = 'pending' and lease_holder is null and endpoint_id > ${after}
        order by endpoint_id, due_at, id limit 1)
      union all
      select next.* from heads cross join lateral (
        select endpoint_id, due_at, project_id, url from webhook_deliveries
         where state = 'pending' and lease_holder is null and endpoint_id > heads.endpoint_id
         order by endpoint_id, due_at, id limit 1) as next
    )
    select ${headColumns} from (select * from heads limit ${limit}) as head
      left join webhook_endpoints as endpoint on endpoint.id = head.endpoint_id
     order by head.endpoint_id`;
}

/**
 * The heads of these endpoints, in no order. An endpoint without waiting deliveries has no head. No
 * locks.
 */
export async function readHeads(db: Db, endpointIds: readonly EndpointId[]): Promise<Head[]> {
  return await readRows<Head>(db)`
    select ${headColumns} from unnest(${[...endpointIds]}::uuid[]) as asked (id) cross join lateral (
      select endpoint_id, due_at, project_id, url from webhook_deliveries
       where state = 'pending' and lease_holder is null and endpoint_id = asked.id
       order by due_at, id limit 1) as head
      left join webhook_endpoints as endpoint on endpoint.id = head.endpoint_id`;
}

/** A delivery that was leased to a holder. */
export type ClaimedRow = Omit<NewDelivery, "appId" | "secret" | "bodyBytes"> & {
  readonly id: DeliveryId;
  /** The number of the lease; each lease of a delivery has a higher one. */
  readonly epoch: number;
  readonly endpointId: EndpointId;
  readonly secretSealed: string | null;
  /** The number of attempts since the delivery was created or last replayed. */
  readonly scheduleAttempts: number;
};

/**
 * The deliveries to claim: up to `max` of each endpoint, whose bodies have up to `bytesMax` bytes
 * together. If `hasCapacity` is true, the first delivery is claimed even if its body alone is
 * larger.
 */
export type Claim = {
  readonly wanted: readonly { readonly endpointId: EndpointId; readonly max: number }[];
  readonly bytesMax: number;
  readonly hasCapacity: boolean;
};

/**
 * Gives `holder` the leases of deliveries that are due: of each endpoint, those that were due
 * first. Skips locked rows.
 */
export async function claimRows(
  db: Db,
  claim: Claim,
  { holder, leaseMs }: Holder,
): Promise<ClaimedRow[]> {
  const { wanted, bytesMax, hasCapacity } = claim;
  // `total` is the size of a row's body and of all bodies before it, so `total = body_bytes` holds
  // for the first row.
  return await readRows<ClaimedRow>(db)`
    with wanted as (
      select * from unnest(${wanted.map((share) => share.endpointId)}::uuid[], ${wanted.map((share) => share.max)}::integer[])
        as wanted (endpoint_id, count_max)
       where not exists (select from webhook_endpoints where id = wanted.endpoint_id and paused_at is not null)
    ), found as materialized (
      select due.* from wanted cross join lateral (
        select id, body_bytes, due_at from webhook_deliveries
         where endpoint_id = wanted.endpoint_id and state = 'pending' and lease_holder is null
           and due_at <= clock_timestamp()
         order by due_at, id limit wanted.count_max for update skip locked) as due
    ), sized as (
      select id, body_bytes, sum(body_bytes) over (order by due_at, id) as total from found
    )
    update webhook_deliveries as claimed
       set lease_holder = ${holder}, lease_epoch = lease_epoch + 1,
           lease_until = clock_timestamp() + ${leaseMs} * interval '1 millisecond'
      from sized
     where claimed.id = sized.id
       and (sized.total <= ${bytesMax} or (sized.total = sized.body_bytes and ${hasCapacity}))
    returning claimed.id, claimed.lease_epoch as epoch, claimed.endpoint_id as "endpointId",
              claimed.project_id as "projectId", claimed.run_id as "runId", claimed.url,
              claimed.secret_sealed as "secretSealed", claimed.status_code as "statusCode",
              claimed.content_type as "contentType", claimed.content_fields as "contentFields", claimed.body,
              claimed.schedule_attempts as "scheduleAttempts"`;
}

/** The result of an attempt of a held delivery. */
export type AttemptRow = {
  readonly id: DeliveryId;
  /** The number of the lease under which the attempt was made. */
  readonly epoch: number;
  /** The state of the delivery after the attempt. */
  readonly state: DeliveryState;
  /** Why the attempt failed; null: it succeeded. */
  readonly reason: string | null;
  /** The time until the next attempt; without meaning unless the delivery is still pending. */
  readonly waitMs: number;
  /** By the clock of the platform, in milliseconds since 1970. */
  readonly startedMs: number;
  readonly durationMs: number;
  /** Null: there was no answer. */
  readonly statusCode: number | null;
  /** The beginning of the answer's body. */
  readonly answer: Buffer | null;
};

/**
 * Writes attempts, updates their deliveries and endpoints, and releases the leases, in one
 * statement. Returns the ids of the deliveries that `holder` still held; writes nothing for the
 * other deliveries. An endpoint that only succeeds is updated at most once a minute.
 */
export async function writeAttempts(
  db: Db,
  rows: readonly AttemptRow[],
  holder: string,
): Promise<Set<DeliveryId>> {
  const column = <T>(pick: (row: AttemptRow) => T): T[] => rows.map((row) => pick(row));
  const result = await sql<{ id: DeliveryId }>`
    with given as (
      select id, epoch, state, reason, wait_ms, to_timestamp(started_ms / 1000) as started_at, duration_ms, status_code,
             answer
        from unnest(
          ${column((row) => row.id)}::uuid[], ${column((row) => row.epoch)}::bigint[],
          ${column((row) => row.state)}::text[], ${column((row) => row.reason)}::text[],
          ${column((row) => row.waitMs)}::float8[], ${column((row) => row.startedMs)}::float8[],
          ${column((row) => row.durationMs)}::real[], ${column((row) => row.statusCode)}::smallint[],
          ${column((row) => row.answer)}::bytea[]
        ) as given (id, epoch, state, reason, wait_ms, started_ms, duration_ms, status_code, answer)
    ), written as (
      update webhook_deliveries as delivery
         set state = given.state, reason = given.reason, attempts = attempts + 1,
             schedule_attempts = schedule_attempts + 1,
             due_at = clock_timestamp() + given.wait_ms * interval '1 millisecond',
             ended_at = case when given.state <> 'pending' then clock_timestamp() end,
             lease_holder = null, lease_until = null
        from given
       where delivery.id = given.id and delivery.lease_epoch = given.epoch and delivery.lease_holder = ${holder}
         and delivery.state = 'pending'
      returning delivery.id, delivery.endpoint_id, delivery.attempts as number, given.started_at, given.duration_ms,
                given.status_code, given.reason, given.answer
    ), noted as (
      insert into webhook_attempts (delivery_id, number, started_at, duration_ms, status_code, reason, answer)
      select id, number, started_at, duration_ms, status_code, reason, answer from written
    ), ends as (
      select endpoint_id, bool_or(reason is null) as has_success,
             min(started_at) filter (where reason is not null) as failed_from,
             (array_agg(reason order by started_at desc) filter (where reason is not null))[1] as failure
        from written group by endpoint_id
    ), locked as (
      -- In order, so that two platforms do not wait for each other.
      select endpoint.id from webhook_endpoints as endpoint join ends on ends.endpoint_id = endpoint.id
       where failure is not null or failing_since is not null or last_success_at is null
          or last_success_at < clock_timestamp() - interval '1 minute'
       order by endpoint.id for no key update of endpoint
    ), seen as (
      update webhook_endpoints as endpoint
         set last_success_at = case when has_success then clock_timestamp() else last_success_at end,
             last_failure_at = case when failure is not null then clock_timestamp() else last_failure_at end,
             last_failure = coalesce(failure, last_failure),
             failing_since = case when has_success then null else coalesce(failing_since, failed_from) end
        from ends join locked on locked.id = ends.endpoint_id
       where endpoint.id = ends.endpoint_id
    )
    select id from written`.execute(db);
  return new Set(result.rows.map((row) => row.id));
}

/** Releases leases that `holder` still holds, so that other platforms can claim the deliveries. */
export async function releaseRows(
  db: Db,
  held: readonly { readonly id: DeliveryId; readonly epoch: number }[],
  holder: string,
): Promise<void> {
  await sql`
    update webhook_deliveries as released set lease_holder = null, lease_until = null
      from unnest(${held.map((lease) => lease.id)}::uuid[], ${held.map((lease) => lease.epoch)}::bigint[]) as held (id, epoch)
     where released.id = held.id and released.lease_epoch = held.epoch and released.lease_holder = ${holder}`.execute(
    db,
  );
}
