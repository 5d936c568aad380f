// Collects items and writes them in batches: while one batch is being written, what comes gathers for the next. The queue
// is bounded; a write that fails because the database is away is tried again for a while. Order is kept.
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { Clock } from "#lib/clock.ts";

/** How a batcher writes and what it holds at most. */
export type BatcherOptions<Item> = {
  readonly write: (items: readonly Item[]) => Promise<void>;
  /** Characters that an item takes in memory. */
  readonly weigh: (item: Item) => number;
  /** How long the first item of a batch waits for others; 0: not at all. */
  readonly lingerMs: number;
  /** The most items of one write; as many waiting end the lingering. */
  readonly batchMax: number;
  /** The most items, and characters, that wait. */
  readonly queueMax: number;
  readonly queueWeightMax: number;
  /** Called when nothing waits and nothing is being written any more. */
  readonly onIdle?: () => void;
  readonly clock: Clock;
};

type Entry<Item> = {
  readonly items: readonly Item[];
  readonly weight: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
};

/** How long writing is tried again, which spans a restart of the database. */
const retryWaitMs = 30_000;
const retryBackoff: Backoff = { firstMs: 50, factor: 2, mostMs: 2_000, jitter: 0.2 };

/** A bounded queue before a store. */
export class Batcher<Item> {
  readonly #options: BatcherOptions<Item>;
  readonly #queue: Entry<Item>[] = [];
  #queued = 0;
  #weight = 0;
  #running: Promise<void> | undefined;
  #endLinger: AbortController | undefined;
  #isHurried = false;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(options: BatcherOptions<Item>) {
    this.#options = options;
  }

  /** True while nothing more should be added. */
  get isFull(): boolean {
    return this.#queued >= this.#options.queueMax || this.#weight >= this.#options.queueWeightMax;
  }

  /** Resolves when there is room again. */
  async waitForRoom(): Promise<void> {
    while (this.isFull) await (this.#room ??= Promise.withResolvers<void>()).promise;
  }

  /** Resolves when the items are stored; rejects when they could not be and are given up. Does not look at the bound. */
  add(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return Promise.resolve();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let weight = 0;
    for (const item of items) weight += this.#options.weigh(item);
    this.#queue.push({ items, weight, resolve, reject });
    this.#queued += items.length;
    this.#weight += weight;
    if (this.#queued >= this.#options.batchMax) this.#endLinger?.abort();
    this.#running ??= this.#run();
    return promise;
  }

  /** Resolves when everything added so far is stored or given up. */
  async flush(): Promise<void> {
    this.#isHurried = true;
    this.#endLinger?.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      await this.#linger();
      await this.#writeNext();
    }
    // No await since the queue was seen empty: what is added from here on starts a new run.
    this.#running = undefined;
    this.#isHurried = false;
    this.#options.onIdle?.();
  }

  async #linger(): Promise<void> {
    const { lingerMs, batchMax, clock } = this.#options;
    if (lingerMs === 0 || this.#isHurried || this.#queued >= batchMax) return;
    this.#endLinger = new AbortController();
    // Rejects when it is ended early, which is what was asked for.
    await clock.sleep(lingerMs, this.#endLinger.signal).catch(() => undefined);
    this.#endLinger = undefined;
  }

  async #writeNext(): Promise<void> {
    const entries: Entry<Item>[] = [];
    let count = 0;
    while (this.#queue.length > 0 && count < this.#options.batchMax) {
      const entry = this.#queue.shift();
      if (entry === undefined) break;
      entries.push(entry);
      count += entry.items.length;
    }
    try {
      const items = entries.flatMap((entry) => entry.items);
      for (let at = 0; at < items.length; at += this.#options.batchMax) {
        await this.#writeWithRetries(items.slice(at, at + this.#options.batchMax));
      }
      for (const entry of entries) entry.resolve();
    } catch (error) {
      for (const entry of entries) entry.reject(error);
    } finally {
      this.#release(entries);
    }
  }

  async #writeWithRetries(items: readonly Item[]): Promise<void> {
    const { write, clock } = this.#options;
    const giveUpAt = clock.monotonicMs() + retryWaitMs;
    for (let attempt = 1; ; attempt++) {
      try {
        return await write(items);
      } catch (error) {
        if (!mayPass(error) || clock.monotonicMs() >= giveUpAt) throw error;
        await clock.sleep(backoffMs(retryBackoff, attempt, clock.random()));
      }
    }
  }

  #release(entries: readonly Entry<Item>[]): void {
    for (const { items, weight } of entries) {
      this.#queued -= items.length;
      this.#weight -= weight;
    }
    this.#room?.resolve();
    this.#room = undefined;
  }
}

/** Errors of data (SQLSTATE classes 22 and 23) stay; a connection that is gone or a restart passes. */
function mayPass(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return !/^2[23]/.test(code);
}
