// Removes what is too old of webhooks, in bounded steps: bodies first, then deliveries with their attempts, then endpoints
// that have none left. Deliveries that wait for a paused endpoint longer than deliveries are kept end as failed.
import { sql } from "kysely";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";

export type WebhookRetentionOptions = {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** How long ended deliveries are kept, and their bodies. */
  readonly days: number;
  readonly bodyDays: number;
};

type Step = (db: Db, options: { readonly days: number; readonly limit: number }) => Promise<number>;

/** Old rows may stay an hour longer. */
const intervalMs = 3_600_000;
const batchMax = 1000;
/** Steps of one turn and kind: more than an hour's worth at 1,000 deliveries a second. */
const stepsMax = 4000;

/** The loop that removes what is old; start and stop it with the platform. */
export function webhookRetention(options: WebhookRetentionOptions): Loop {
  const { clock, log } = options;
  return new Loop({
    ...{ name: "webhook retention", intervalMs, clock, log },
    waitsForClock: true,
    turn: (signal) => removeOldWebhooks(options, signal),
  });
}

/** One turn: removes what is too old, until nothing is left, the bound is reached or `signal` is aborted. */
export async function removeOldWebhooks(options: WebhookRetentionOptions, signal: AbortSignal): Promise<void> {
  const { db, log, days, bodyDays } = options;
  const removed = {
    given_up: await repeat(giveUp, days),
    bodies: await repeat(dropBodies, bodyDays),
    deliveries: await repeat(dropDeliveries, days),
    endpoints: await repeat(dropEndpoints, days),
  };
  if (Object.values(removed).some((count) => count > 0)) log.info(removed, "removed old webhook deliveries");

  async function repeat(step: Step, stepDays: number): Promise<number> {
    let total = 0;
    for (let steps = 0; steps < stepsMax && !signal.aborted; steps++) {
      const count = await step(db, { days: stepDays, limit: batchMax });
      total += count;
      if (count < batchMax) break;
    }
    return total;
  }
}

const giveUp: Step = async (db, { days, limit }) => {
  const result = await sql`
    update webhook_deliveries set state = 'failed', ended_at = clock_timestamp(),
           reason = 'Its endpoint was paused for longer than deliveries are kept.'
     where id in (select id from webhook_deliveries
                   where created_at < clock_timestamp() - ${days} * interval '1 day'
                     and due_at < clock_timestamp() - ${days} * interval '1 day'
                     and state = 'pending' and lease_holder is null
                   limit ${limit} for update skip locked)`.execute(db);
  return Number(result.numAffectedRows ?? 0n);
};

const dropBodies: Step = async (db, { days, limit }) => {
  const result = await sql`
    update webhook_deliveries set body = null, secret_sealed = null
     where id in (select id from webhook_deliveries
                   where ended_at < clock_timestamp() - ${days} * interval '1 day' and body is not null
                   order by ended_at limit ${limit} for update skip locked)`.execute(db);
  return Number(result.numAffectedRows ?? 0n);
};

const dropDeliveries: Step = async (db, { days, limit }) => {
  const result = await sql`
    delete from webhook_deliveries
     where id in (select id from webhook_deliveries
                   where ended_at < clock_timestamp() - ${days} * interval '1 day'
                   order by ended_at limit ${limit} for update skip locked)`.execute(db);
  return Number(result.numAffectedRows ?? 0n);
};

/** A delivery that is added meanwhile is sent all the same, and the next one makes the endpoint known again. */
const dropEndpoints: Step = async (db, { days, limit }) => {
  const result = await sql`
    delete from webhook_endpoints
     where id in (select id from webhook_endpoints as endpoint
                   where created_at < clock_timestamp() - ${days} * interval '1 day' and paused_at is null
                     and not exists (select from webhook_deliveries where endpoint_id = endpoint.id)
                   limit ${limit} for update skip locked)`.execute(db);
  return Number(result.numAffectedRows ?? 0n);
};
