// Runs the deliveries in progress on this platform: makes each attempt, renews its lease meanwhile,
// and writes the results, many in one transaction. If a result cannot be written, or the lease is
// lost, the next holder sends the delivery again.
import { Batcher } from "#lib/batcher.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import { Tally } from "#lib/tally.ts";
import { waitUpTo } from "#lib/with-deadline.ts";
import type { Db } from "#store/database.ts";
import type { Leases } from "#store/lease.ts";
import { attempt, type AttemptParts } from "./attempt.ts";
import { releaseRows, writeAttempts, type AttemptRow, type Holder } from "./delivery-store.ts";
import type { HeldDelivery } from "./delivery.ts";
import type { DeliverySlots, Wish } from "./delivery-slots.ts";
import type { WebhookStep } from "./webhook-step.ts";

export type InFlightParts = AttemptParts & {
  readonly db: Db;
  readonly leases: Pick<Leases<"webhook_deliveries">, "renewAll">;
  readonly holder: Holder;
  readonly slots: Pick<DeliverySlots, "noteEnd">;
  /** The maximum number of concurrent deliveries. */
  readonly atOnce: number;
  readonly onStep: (name: WebhookStep) => void;
};

/**
 * Called once, at the end: with the delay of the retry, or null when the delivery is over or lost
 * to another holder.
 */
export type InFlightWatcher = { readonly onEnd: (retryMs: number | null) => void };

const writeBatchMax = 200;
/**
 * While the database is unavailable, a result is written again after these pauses: together at
 * least 20 seconds, longer than a lease, since nobody else sends the delivery before its lease
 * expires. If the last try fails too, the lease is not renewed any more, and the delivery is sent
 * again.
 */
const writeRetry: RetryPolicy = { firstMs: 50, factor: 2, msMax: 5000, jitter: 0.2, triesMax: 12 };

/**
 * Makes the attempts. `stop()` waits for deliveries in progress, and abandons those that take too
 * long.
 */
export class InFlight {
  /** Attempts since the platform started, by result; `pending`: to be retried. */
  readonly attempts = new Tally<AttemptRow["state"]>("delivered", "pending", "failed");
  readonly #parts: InFlightParts;
  /** May briefly hold the same delivery twice: when its lease was lost and claimed again. */
  readonly #inProgress = new Map<HeldDelivery, Promise<void>>();
  readonly #results: Batcher<AttemptRow, boolean>;
  readonly #stopping = new AbortController();

  constructor(parts: InFlightParts) {
    this.#parts = parts;
    this.#results = new Batcher({
      write: (rows) => this.#write(rows),
      batchMax: writeBatchMax,
      queueMax: parts.atOnce,
      clock: parts.clock,
    });
  }

  get count(): number {
    return this.#inProgress.size;
  }

  begin(held: HeldDelivery, wish: Wish, watcher: InFlightWatcher): void {
    this.#inProgress.set(held, this.#deliver(held, wish, watcher));
  }

  /** Renews the leases of all deliveries in progress. */
  async renew(): Promise<void> {
    const leases = [...this.#inProgress.keys()].map((held) => ({
      id: held.delivery.id,
      epoch: held.epoch,
      // Every lease has this member, but renewing does not read it.
      isTakenOver: false,
    }));
    if (leases.length > 0) await this.#parts.leases.renewAll(leases);
  }

  /**
   * Waits up to `waitMs`, then releases the deliveries still in progress, so that they need not
   * wait for their leases to expire.
   */
  async stop(waitMs: number): Promise<void> {
    const { clock, db, holder } = this.#parts;
    await waitUpTo(clock, waitMs, Promise.all(this.#inProgress.values()));
    const remaining = [...this.#inProgress.keys()].map((held) => ({
      id: held.delivery.id,
      epoch: held.epoch,
    }));
    // Ends the retries of writes: a delivery whose result was not written is sent again.
    this.#stopping.abort(new Error("deliveries are let go"));
    await this.#results.stop();
    if (remaining.length > 0) await releaseRows(db, remaining, holder.holder);
  }

  async #deliver(held: HeldDelivery, wish: Wish, { onEnd }: InFlightWatcher): Promise<void> {
    const { slots, log, onStep } = this.#parts;
    let retryMs: number | null = null;
    try {
      const { row, isTrouble } = await attempt(this.#parts, held);
      slots.noteEnd(wish.lane, isTrouble);
      this.attempts.count(row.state);
      onStep("sent");
      if ((await this.#record(row)) && row.state === "pending") retryMs = row.waitMs;
    } catch (error) {
      // The lease of the delivery expires, and then the delivery is retried.
      log.error({ err: error, delivery: held.delivery.id }, "a webhook could not be sent");
    } finally {
      this.#inProgress.delete(held);
      onEnd(retryMs);
    }
  }

  /**
   * Stores the result of an attempt. False when the delivery is lost to another holder, or will be,
   * since the result could not be written.
   */
  async #record(row: AttemptRow): Promise<boolean> {
    const { clock, log } = this.#parts;
    const { signal } = this.#stopping;
    const onFailure = (error: unknown, _tries: number, isLast: boolean): void => {
      if (isLast)
        log.error({ err: error, delivery: row.id }, "the result of a webhook could not be written");
    };
    return (
      (await retry({ ...writeRetry, clock, signal, onFailure }, () => this.#results.add(row))) ??
      false
    );
  }

  async #write(rows: readonly AttemptRow[]): Promise<readonly boolean[]> {
    const { db, holder, onStep } = this.#parts;
    const written = await writeAttempts(db, rows, holder.holder);
    onStep("written");
    return rows.map((row) => written.has(row.id));
  }
}
