// Selects the old rows of webhooks, ends deliveries that have waited too long, and deletes bodies.
// All times are the database's.
import { sql, type RawBuilder } from "kysely";
import { changeRows, type Db } from "#store/database.ts";

/** Selects at most `limit` deliveries by an age in days. */
type OldOnes = { readonly days: number; readonly limit: number };

/** The condition that selects the deliveries that ended more than `days` ago. */
export function isOldDelivery(days: number): RawBuilder<unknown> {
  return sql`ended_at < ${daysAgo(days)}`;
}

/**
 * The condition that selects the endpoints that are older than `days`, have no delivery and are not
 * paused. A delivery that is inserted while its endpoint is being deleted is still sent, and the
 * next delivery inserts the endpoint again.
 */
export function isUnusedEndpoint(days: number): RawBuilder<unknown> {
  return sql`created_at < ${daysAgo(days)} and paused_at is null
    and not exists (select from webhook_deliveries where endpoint_id = webhook_endpoints.id)`;
}

/**
 * Ends as failed up to `limit` deliveries that have waited for more than `days` and whose endpoint
 * is paused; returns how many. A delivery that waits for another reason, such as a platform that
 * was off, is still sent. Takes the deliveries in no order, and skips locked rows.
 */
export async function failWaiting(db: Db, { days, limit }: OldOnes): Promise<number> {
  return await changeRows(db)`
    update webhook_deliveries set state = 'failed', ended_at = clock_timestamp(),
           reason = 'Its endpoint was paused for longer than deliveries are kept.'
     where id in (select id from webhook_deliveries
                   where created_at < ${daysAgo(days)} and due_at < ${daysAgo(days)}
                     and state = 'pending' and lease_holder is null
                     and endpoint_id in (select id from webhook_endpoints where paused_at is not null)
                   limit ${limit} for update skip locked)`;
}

/**
 * Deletes the bodies and the secrets of deliveries that ended more than `days` ago, the
 * longest-ended first; returns how many. Skips locked rows.
 */
export async function dropBodies(db: Db, { days, limit }: OldOnes): Promise<number> {
  return await changeRows(db)`
    update webhook_deliveries set body = null, secret_sealed = null
     where id in (select id from webhook_deliveries
                   where ended_at < ${daysAgo(days)} and body is not null
                   order by ended_at limit ${limit} for update skip locked)`;
}

function daysAgo(days: number): RawBuilder<unknown> {
  return sql`clock_timestamp() - ${days} * interval '1 day'`;
}
