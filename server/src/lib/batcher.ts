// Writes in batches: what comes while a write is under way waits for it and is then written together. Who is alone does not
// wait for others, unless the batcher lingers. The queue is bounded, order is kept, and every item learns what became of it.
import { assert } from "./assert.ts";
import { backoffMs, type Backoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { DeadlineExceeded, withDeadline } from "./with-deadline.ts";

/** How batches are written, and how much may wait. */
export type BatcherOptions<Item, Result> = {
  /** Writes all of them or none; resolves with one result for each, in their order, or with nothing. */
  readonly write: (items: readonly Item[]) => Promise<readonly Result[] | void>;
  /** The most items of one write, and that wait. */
  readonly batchMax: number;
  readonly queueMax: number;
  /** What one weighs, for example in bytes; without it each weighs nothing. */
  readonly weigh?: (item: Item) => number;
  /** The most that those of one write, and those that wait, weigh together. */
  readonly batchWeightMax?: number;
  readonly queueWeightMax?: number;
  /** How long the first of a batch waits for others, unless it is full; without it not at all. */
  readonly lingerMs?: number;
  /** How long a write is tried again that may succeed later; without it, it is not. */
  readonly retryForMs?: number;
  /** How long one write may take; without it as long as it takes. */
  readonly writeWaitMs?: number;
  /** Told of each write that fails. */
  readonly onFailure?: (error: unknown, items: readonly Item[]) => void;
  /** Called when nothing waits and nothing is being written any more. */
  readonly onIdle?: () => void;
  readonly clock: Clock;
};

/** There is no room for more at the moment. */
export class BatcherFull extends Error {
  override readonly name = "BatcherFull";
}

type Entry<Item, Result> = {
  readonly items: readonly Item[];
  readonly weight: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

const retryBackoff: Backoff = { firstMs: 50, factor: 2, msMax: 2_000, jitter: 0.2 };

/** One kind of write. Stop with `flush()`, or with `stop()`, which waits for no repeats. */
export class Batcher<Item, Result = void> {
  readonly #options: BatcherOptions<Item, Result>;
  #queue: Entry<Item, Result>[] = [];
  #count = 0;
  #weight = 0;
  #running: Promise<void> | undefined;
  #room: PromiseWithResolvers<void> | undefined;
  #endLinger: (() => void) | undefined;
  #isHurried = false;
  readonly #stopping = new AbortController();

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /** True while nothing more is taken. */
  get isFull(): boolean {
    return !this.#hasRoom(0);
  }

  /** Resolves once it is written. Rejects with `BatcherFull`, or with why it was not written. */
  add(item: Item): Promise<Result> {
    const weight = this.#options.weigh?.(item) ?? 0;
    if (!this.#hasRoom(weight)) return Promise.reject(new BatcherFull("too much is waiting to be written"));
    return this.#push([item], weight);
  }

  /** As `add`, for many: they are taken together, if there is room for one, and may go beyond the bound of the queue. */
  async addAll(items: readonly Item[]): Promise<void> {
    const { batchMax, weigh } = this.#options;
    if (this.isFull) throw new BatcherFull("too much is waiting to be written");
    const added: Promise<Result>[] = [];
    for (let at = 0; at < items.length; at += batchMax) {
      const some = items.slice(at, at + batchMax);
      added.push(this.#push(some, weigh === undefined ? 0 : some.reduce((sum, item) => sum + weigh(item), 0)));
    }
    await Promise.all(added);
  }

  /** As `addAll`, but waits for room. */
  async addWhenRoom(items: readonly Item[]): Promise<void> {
    while (this.isFull) await (this.#room ??= Promise.withResolvers<void>()).promise;
    await this.addAll(items);
  }

  /** Resolves when everything added so far is written or given up. Ends the lingering, but no repeats. */
  async flush(): Promise<void> {
    if (this.#running === undefined) return;
    this.#isHurried = true;
    this.#endLinger?.();
    await this.#running;
  }

  /** Resolves when nothing waits any more. What fails from now on is not tried again. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the batcher stops"));
    while (this.#running !== undefined) await this.flush();
  }

  #hasRoom(weight: number): boolean {
    const { queueMax, queueWeightMax = Number.POSITIVE_INFINITY } = this.#options;
    return this.#count < queueMax && (this.#weight === 0 || this.#weight + weight <= queueWeightMax);
  }

  #push(items: readonly Item[], weight: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ items, weight, resolve, reject });
      this.#count += items.length;
      this.#weight += weight;
      if (this.#count >= this.#options.batchMax) this.#endLinger?.();
      this.#running ??= this.#run();
    });
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      // Without lingering, the first write begins before `add` returns.
      if (this.#mayLinger()) await this.#linger();
      await this.#write(this.#takeBatch());
    }
    // No await since the queue was seen empty: what is added from here on starts a new run.
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

  /** The first of the queue, and as many after it as fit with it. */
  #takeBatch(): Entry<Item, Result>[] {
    const { batchMax, batchWeightMax = Number.POSITIVE_INFINITY } = this.#options;
    let taken = 0;
    let count = 0;
    let weight = 0;
    for (const entry of this.#queue) {
      count += entry.items.length;
      weight += entry.weight;
      if (taken > 0 && (count > batchMax || weight > batchWeightMax)) break;
      taken++;
    }
    return this.#take(taken);
  }

  #take(entries: number): Entry<Item, Result>[] {
    const taken = this.#queue.slice(0, entries);
    this.#queue = this.#queue.slice(entries);
    for (const { items, weight } of taken) {
      this.#count -= items.length;
      this.#weight -= weight;
    }
    this.#room?.resolve();
    this.#room = undefined;
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
        const mayPass = !isOfData(error) && !signal.aborted && clock.monotonicMs() < giveUpAtMs;
        if (!mayPass) return await this.#giveUp(entries, error);
      }
      // An end of the waiting is what was asked for.
      await clock.sleep(backoffMs(retryBackoff, attempt, clock.random()), signal).catch(() => undefined);
    }
  }

  async #giveUp(entries: readonly Entry<Item, Result>[], error: unknown): Promise<void> {
    // One that the database does not take must not stop those that happen to be written with it.
    if (entries.length > 1 && isOfData(error)) for (const entry of entries) await this.#write([entry]);
    else for (const entry of [...entries, ...this.#takeHopeless(error)]) entry.reject(error);
  }

  /** Those that wait, when they would wait in vain as well: for what does not answer, or at the stop for what is away. */
  #takeHopeless(error: unknown): Entry<Item, Result>[] {
    const isAway = this.#stopping.signal.aborted && this.#options.retryForMs !== undefined && !isOfData(error);
    return error instanceof DeadlineExceeded || isAway ? this.#take(this.#queue.length) : [];
  }
}

function resolveAll<Item, Result>(entries: readonly Entry<Item, Result>[], results: readonly Result[] | void): void {
  const count = entries.reduce((sum, { items }) => sum + items.length, 0);
  assert(!results || results.length === count, "a batch must give one result for each item");
  let at = 0;
  for (const { items, resolve } of entries) {
    resolve(results?.[at] as Result);
    at += items.length;
  }
}

/** Errors of what was written (SQLSTATE classes 22, 23 and 54), as opposed to a database that is away. */
function isOfData(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return /^(?:22|23|54)/.test(code);
}
