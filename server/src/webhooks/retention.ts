// Deletes old data of webhooks: bodies first, then deliveries with their attempts, then endpoints
// without deliveries. Deliveries that wait for a paused endpoint beyond the retention end as
// failed.
import type { RemovalStep } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { rowsWhere } from "#store/older-rows.ts";
import { isOldDelivery, isUnusedEndpoint, dropBodies, failWaiting } from "./retention-store.ts";

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
  return [
    {
      name: "deliveries given up",
      batchMax,
      remove: (limit) => failWaiting(db, { days, limit }),
    },
    { name: "bodies", batchMax, remove: (limit) => dropBodies(db, { days: bodyDays, limit }) },
    rowsWhere(db, {
      name: "deliveries",
      batchMax,
      table: "webhook_deliveries",
      which: isOldDelivery(days),
    }),
    rowsWhere(db, {
      name: "endpoints",
      batchMax,
      table: "webhook_endpoints",
      which: isUnusedEndpoint(days),
    }),
  ];
}
