// Writes items in batches: items added during a write are queued and then written together. A
// single item does not wait unless the batcher lingers. The queue is bounded. Items are written in
// the order in which they were added; if items have keys, this order holds only among the items of
// one key, and the keys take turns. Every item gets a result or an error.
import { getOrInsert } from "./get-or-insert.ts";
import { assert } from "./assert.ts";
import { backoffMs, type Backoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { errorCode } from "./error-code.ts";
import { DeadlineExceeded, withDeadline } from "./with-deadline.ts";

/** How batches are written, and how large the queue may get. */
export type BatcherOptions<Item, Result> = {
  /** Writes all items or none; resolves with one result per item, in order, or with nothing. */
  readonly write: (items: readonly Item[]) => Promise<readonly Result[] | void>;
  /** The maximum number of items in one write. */
  readonly batchMax: number;
  /** The maximum number of items in the queue. */
  readonly queueMax: number;
  /**
   * Returns the key of an item. Keys with waiting items take turns. For a key without waiting
   * items, `addWhenNotFull` does not wait for space.
   */
  readonly keyOf?: (item: Item) => string;
  /** The maximum number of items in one turn of a key; without it, a whole batch. */
  readonly turnMax?: number;
  /** The weight of one item, for example in bytes; without it, items weigh nothing. */
  readonly weigh?: (item: Item) => number;
  /** The maximum total weight of one write. */
  readonly batchWeightMax?: number;
  /** The maximum total weight of the queue. */
  readonly queueWeightMax?: number;
  /**
   * How long the first item of a batch waits for more items, unless the batch is full; without it,
   * no item waits.
   */
  readonly lingerMs?: number;
  /** How long to retry a write that may succeed later; without it, there are no retries. */
  readonly retryForMs?: number;
  /** The timeout of one write; without it, there is none. */
  readonly writeWaitMs?: number;
  /** Called for each failed write. */
  readonly onFailure?: (error: unknown, items: readonly Item[]) => void;
  /** Called when the queue is empty and no write is under way. */
  readonly onIdle?: () => void;
  readonly clock: Clock;
};

/** The error of an item for which the queue has no space. */
export class BatcherFull extends Error {
  override readonly name = "BatcherFull";
}

/** Items of one key that are written together. Whoever added them gets the first item's result. */
type Entry<Item, Result> = {
  readonly items: readonly Item[];
  readonly weight: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

const retryBackoff: Backoff = { firstMs: 50, factor: 2, msMax: 2_000, jitter: 0.2 };

/** Does one kind of write. To close it, await `flush()`, or `stop()`, which ends retries too. */
export class Batcher<Item, Result = void> {
  readonly #options: BatcherOptions<Item, Result>;
  /** The waiting entries of each key; the key whose turn is next comes first. */
  readonly #queues = new Map<string, Entry<Item, Result>[]>();
  /** The number of items in the queue. */
  #count = 0;
  /** The total weight of the queue. */
  #weight = 0;
  /** Resolves when the queue is empty and written; undefined: nothing is being written. */
  #running: Promise<void> | undefined;
  /** Resolves when entries have left the queue; undefined: nobody waits for space. */
  #spaceFreed: PromiseWithResolvers<void> | undefined;
  /** Lets the lingering batch be written at once; undefined: none lingers. */
  #endLinger: (() => void) | undefined;
  /** True from a `flush` until the queue is empty: no batch lingers then. */
  #isHurried = false;
  readonly #stopping = new AbortController();

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /** True while the queue is full. */
  get isFull(): boolean {
    return !this.#hasSpace(0);
  }

  /**
   * Resolves once the item is written. Rejects with `BatcherFull` or with the error of the write.
   */
  add(item: Item): Promise<Result> {
    const weight = this.#options.weigh?.(item) ?? 0;
    if (!this.#hasSpace(weight))
      return Promise.reject(new BatcherFull("too much is waiting to be written"));
    return this.#push([item], weight);
  }

  /**
   * Like `add`, for many items: if the queue has space for one, it takes them all, even beyond its
   * bound.
   */
  async addAll(items: readonly Item[]): Promise<void> {
    if (this.isFull) throw new BatcherFull("too much is waiting to be written");
    await this.#pushAll(items);
  }

  /** Like `addAll`, but waits for space. All items must have the same key. */
  async addWhenNotFull(items: readonly Item[]): Promise<void> {
    const [first] = items;
    if (first === undefined) return;
    const key = this.#keyOf(first);
    const mustWait = (): boolean =>
      this.isFull && (this.#options.keyOf === undefined || this.#queues.has(key));
    // All callers that wait share one promise. One of them may fill the queue again, so each one
    // looks again.
    while (mustWait()) {
      this.#spaceFreed ??= Promise.withResolvers<void>();
      await this.#spaceFreed.promise;
    }
    await this.#pushAll(items);
  }

  /**
   * Resolves when everything added so far is written or given up. Ends lingering, but not retries.
   */
  async flush(): Promise<void> {
    if (this.#running === undefined) return;
    this.#isHurried = true;
    this.#endLinger?.();
    await this.#running;
  }

  /** Resolves when the queue is empty. From now on, failed writes are not retried. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the batcher stops"));
    while (this.#running !== undefined) await this.flush();
  }

  #hasSpace(weight: number): boolean {
    const { queueMax, queueWeightMax = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#count >= queueMax) return false;
    // An empty queue takes one item even if it is heavier than the maximum.
    return this.#weight === 0 || this.#weight + weight <= queueWeightMax;
  }

  #keyOf(item: Item): string {
    return this.#options.keyOf?.(item) ?? "";
  }

  async #pushAll(items: readonly Item[]): Promise<void> {
    const { batchMax, turnMax = batchMax, weigh } = this.#options;
    const added: Promise<Result>[] = [];
    for (let at = 0; at < items.length; at += turnMax) {
      const part = items.slice(at, at + turnMax);
      const weight = weigh === undefined ? 0 : part.reduce((sum, item) => sum + weigh(item), 0);
      added.push(this.#push(part, weight));
    }
    await Promise.all(added);
  }

  #push(items: readonly Item[], weight: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      const [first] = items;
      assert(first !== undefined, "an entry of a batch has items");
      const key = this.#keyOf(first);
      getOrInsert(this.#queues, key, () => []).push({ items, weight, resolve, reject });
      this.#count += items.length;
      this.#weight += weight;
      if (this.#count >= this.#options.batchMax) this.#endLinger?.();
      this.#running ??= this.#run();
    });
  }

  async #run(): Promise<void> {
    while (this.#queues.size > 0) {
      // Without lingering, the first write begins before `add` returns.
      if (this.#mayLinger()) await this.#linger();
      await this.#write(this.#takeBatch());
    }
    // Nothing was awaited since the queue was found empty, so that no item can have been added. An
    // item that is added from here on starts a new run.
    this.#running = undefined;
    this.#isHurried = false;
    this.#options.onIdle?.();
  }

  #mayLinger(): boolean {
    const { lingerMs = 0, batchMax } = this.#options;
    return lingerMs > 0 && !this.#isHurried && this.#count < batchMax;
  }

  async #linger(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(this.#options.lingerMs ?? 0, resolve);
    this.#endLinger = resolve;
    await promise;
    this.#endLinger = undefined;
    cancel();
  }

  /** Removes the next entry, and as many after it as fit into the batch: the keys take turns. */
  #takeBatch(): Entry<Item, Result>[] {
    const { batchMax, batchWeightMax = Number.POSITIVE_INFINITY } = this.#options;
    const taken: Entry<Item, Result>[] = [];
    let count = 0;
    let weight = 0;
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      count += next.items.length;
      weight += next.weight;
      const isTooMuch = count > batchMax || weight > batchWeightMax;
      // The first entry is taken even if it alone exceeds the limits of a batch.
      if (isTooMuch && taken.length > 0) break;
      this.#takeNext();
      taken.push(next);
    }
    return this.#afterRemoval(taken);
  }

  /** The entry whose turn it is. Only a loop reads the first value of a Map, so it ends at once. */
  #next(): Entry<Item, Result> | undefined {
    for (const [first] of this.#queues.values()) return first;
    return undefined;
  }

  /** Removes the first entry. Its key has its next turn after all other keys. */
  #takeNext(): void {
    for (const [key, queue] of this.#queues) {
      queue.shift();
      // A single key needs no turns.
      if (queue.length > 0 && this.#queues.size === 1) return;
      this.#queues.delete(key);
      if (queue.length > 0) this.#queues.set(key, queue);
      return;
    }
  }

  #takeAll(): Entry<Item, Result>[] {
    const taken = [...this.#queues.values()].flat();
    this.#queues.clear();
    return this.#afterRemoval(taken);
  }

  /** Updates the counts of the queue for entries that were removed from it. */
  #afterRemoval(taken: Entry<Item, Result>[]): Entry<Item, Result>[] {
    for (const { items, weight } of taken) {
      this.#count -= items.length;
      this.#weight -= weight;
    }
    this.#spaceFreed?.resolve();
    this.#spaceFreed = undefined;
    return taken;
  }

  async #write(entries: readonly Entry<Item, Result>[]): Promise<void> {
    const { write, writeWaitMs, retryForMs = 0, onFailure, clock } = this.#options;
    const { signal } = this.#stopping;
    const items = entries.flatMap((entry) => entry.items);
    const giveUpAtMs = clock.monotonicMs() + retryForMs;
    for (let attempt = 1; ; attempt++) {
      try {
        const results = await (writeWaitMs === undefined
          ? write(items)
          : withDeadline(clock, writeWaitMs, write(items)));
        return resolveAll(entries, results);
      } catch (error) {
        onFailure?.(error, items);
        const mayRetry = !isDataError(error) && !signal.aborted && clock.monotonicMs() < giveUpAtMs;
        if (!mayRetry) return await this.#giveUp(entries, error);
      }
      // The sleep rejects only when the batcher stops, which ends the pause early.
      await clock
        .sleep(backoffMs(retryBackoff, attempt, clock.random()), signal)
        .catch(() => undefined);
    }
  }

  async #giveUp(entries: readonly Entry<Item, Result>[], error: unknown): Promise<void> {
    // The data of one entry must not fail the other entries of its batch, so each is written alone.
    if (entries.length > 1 && isDataError(error))
      for (const entry of entries) await this.#write([entry]);
    else for (const entry of [...entries, ...this.#takeHopeless(error)]) entry.reject(error);
  }

  /**
   * Removes and returns the queued entries if they would fail as well: after a timeout; or, for a
   * batcher with retries, when it stops while the database is unreachable.
   */
  #takeHopeless(error: unknown): Entry<Item, Result>[] {
    const isStoppedByOutage =
      this.#stopping.signal.aborted &&
      this.#options.retryForMs !== undefined &&
      !isDataError(error);
    return error instanceof DeadlineExceeded || isStoppedByOutage ? this.#takeAll() : [];
  }
}

/** Resolves each entry with the result of its first item. */
function resolveAll<Item, Result>(
  entries: readonly Entry<Item, Result>[],
  results: readonly Result[] | void,
): void {
  const count = entries.reduce((sum, { items }) => sum + items.length, 0);
  assert(!results || results.length === count, "a batch must give one result for each item");
  let at = 0;
  for (const { items, resolve } of entries) {
    resolve(results?.[at] as Result);
    at += items.length;
  }
}

/**
 * Whether the cause is the written data: SQLSTATE classes 22 (invalid values), 23 (violated
 * constraints) and 54 (exceeded limits). Any other error may come from an unreachable database.
 */
function isDataError(error: unknown): boolean {
  return /^(?:22|23|54)/.test(errorCode(error));
}
