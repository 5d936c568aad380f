// Deletes old data of webhooks: bodies first, then deliveries with their attempts, then endpoints
// without deliveries. Deliveries that wait for a paused endpoint beyond the retention end as
// failed.
import { sql } from "kysely";
import type { RemovalStep } from "#lib/retention.ts";
import { changeRows, type Db } from "#store/database.ts";
import { rowsWhere } from "#store/older-rows.ts";

type Remove = (db: Db, which: { readonly days: number; readonly limit: number }) => Promise<number>;

const batchMax = 1_000;

/**
 * The steps of one turn. `days`: how long deliveries are listed; `bodyDays`: how long their bodies
 * are kept for replays.
 */
export function webhookRetention(options: {
  readonly db: Db;
  readonly days: number;
  readonly bodyDays: number;
}): RemovalStep[] {
  const { db, days, bodyDays } = options;
  const since = sql`clock_timestamp() - ${days} * interval '1 day'`;
  // A delivery inserted meanwhile is still sent, and the next one inserts the endpoint again.
  const isUnused = sql`created_at < ${since} and paused_at is null
    and not exists (select from webhook_deliveries where endpoint_id = webhook_endpoints.id)`;
  return [
    { name: "deliveries given up", batchMax, remove: (limit) => giveUp(db, { days, limit }) },
    { name: "bodies", batchMax, remove: (limit) => dropBodies(db, { days: bodyDays, limit }) },
    rowsWhere(db, {
      name: "deliveries",
      batchMax,
      table: "webhook_deliveries",
      which: sql`ended_at < ${since}`,
    }),
    rowsWhere(db, { name: "endpoints", batchMax, table: "webhook_endpoints", which: isUnused }),
  ];
}

/** Ends deliveries that have waited for a paused endpoint beyond the retention. */
const giveUp: Remove = (db, { days, limit }) => changeRows(db)`
    update webhook_deliveries set state = 'failed', ended_at = clock_timestamp(),
           reason = 'Its endpoint was paused for longer than deliveries are kept.'
     where id in (select id from webhook_deliveries
                   where created_at < clock_timestamp() - ${days} * interval '1 day'
                     and due_at < clock_timestamp() - ${days} * interval '1 day'
                     and state = 'pending' and lease_holder is null
                   limit ${limit} for update skip locked)`;

/** Deletes the bodies and the secrets of deliveries that ended long ago. */
const dropBodies: Remove = (db, { days, limit }) => changeRows(db)`
    update webhook_deliveries set body = null, secret_sealed = null
     where id in (select id from webhook_deliveries
                   where ended_at < clock_timestamp() - ${days} * interval '1 day' and body is not null
                   order by ended_at limit ${limit} for update skip locked)`;
