// Deliveries in progress on this platform: makes the attempt, renews the lease meanwhile, and
// writes the results, many in one transaction. If a result cannot be written, or the lease is lost,
// the next holder sends the delivery again.
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
 * While the database is unavailable, results are retried with about this many waits; after that the
 * lease has expired anyway.
 */
const writing: RetryPolicy = { firstMs: 50, factor: 2, msMax: 5000, jitter: 0.2, triesMax: 8 };

/** `stop()` waits for deliveries in progress, and abandons those that take too long. */
export class InFlight {
  /** Attempts since the platform started, by result; `pending`: to be retried. */
  readonly attempts = new Tally<AttemptRow["state"]>("delivered", "pending", "failed");
  readonly #parts: InFlightParts;
  /** May briefly hold the same delivery twice: when its lease was lost and claimed again. */
  readonly #flying = new Map<HeldDelivery, Promise<void>>();
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
    return this.#flying.size;
  }

  begin(held: HeldDelivery, wish: Wish, watcher: InFlightWatcher): void {
    this.#flying.set(held, this.#fly(held, wish, watcher));
  }

  /** Renews the leases of all deliveries in progress. */
  async renew(): Promise<void> {
    const leases = [...this.#flying.keys()].map((held) => ({
      id: held.delivery.id,
      epoch: held.epoch,
      isTakenOver: false,
    }));
    if (leases.length > 0) await this.#parts.leases.renewAll(leases);
  }

  /**
   * Waits up to `waitMs`, then releases what is still in progress, so that it need not wait for its
   * lease to expire.
   */
  async stop(waitMs: number): Promise<void> {
    const { clock, db, holder } = this.#parts;
    await waitUpTo(clock, waitMs, Promise.all(this.#flying.values()));
    const left = [...this.#flying.keys()].map((held) => ({
      id: held.delivery.id,
      epoch: held.epoch,
    }));
    // Another holder sends an abandoned delivery.
    this.#stopping.abort(new Error("deliveries are let go"));
    await this.#results.stop();
    if (left.length > 0) await releaseRows(db, left, holder.holder);
  }

  async #fly(held: HeldDelivery, wish: Wish, { onEnd }: InFlightWatcher): Promise<void> {
    const { slots, log, onStep } = this.#parts;
    let retryMs: number | null = null;
    try {
      const { row, isTrouble } = await attempt(this.#parts, held);
      slots.noteEnd(wish.lane, isTrouble);
      this.attempts.count(row.state);
      onStep("sent");
      if ((await this.#record(row)) && row.state === "pending") retryMs = row.waitMs;
    } catch (error) {
      // Its lease expires, and then it is retried.
      log.error({ err: error, delivery: held.delivery.id }, "a webhook could not be sent");
    } finally {
      this.#flying.delete(held);
      onEnd(retryMs);
    }
  }

  /**
   * False when the delivery is lost to another holder, or will be: the result could not be written.
   */
  async #record(row: AttemptRow): Promise<boolean> {
    const { clock, log } = this.#parts;
    const { signal } = this.#stopping;
    const onFailure = (error: unknown, _tries: number, isLast: boolean): void => {
      if (isLast)
        log.error({ err: error, delivery: row.id }, "the result of a webhook could not be written");
    };
    return (
      (await retry({ ...writing, clock, signal, onFailure }, () => this.#results.add(row))) ?? false
    );
  }

  async #write(rows: readonly AttemptRow[]): Promise<readonly boolean[]> {
    const { db, holder, onStep } = this.#parts;
    const written = await writeAttempts(db, rows, holder.holder);
    onStep("written");
    return rows.map((row) => written.has(row.id));
  }
}
