// Group commit: what comes while a write is under way waits for it and is then written together, in one transaction. Who
// is alone does not wait for others. The queue is bounded; every item learns what became of it.
import { assert } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import { Late, within } from "#lib/within.ts";

/** How a group is written, and how much may wait. */
export type GroupCommitOptions<Item, Result> = {
  /** Writes all of them in one transaction; resolves with one result for each, in their order. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** The most items of one transaction. */
  readonly batchMax: number;
  /** The most items that wait. */
  readonly queueMax: number;
  /** What one weighs, for example in bytes; without it each weighs nothing. */
  readonly weigh?: (item: Item) => number;
  /** The most that those of one transaction, and those that wait, weigh together. */
  readonly batchWeightMax?: number;
  readonly queueWeightMax?: number;
  /** How long one write may take: after it, those that wait are refused with those that it was to write. Without it as long as it takes. */
  readonly deadline?: { readonly waitMs: number; readonly clock: Clock };
};

/** There is no room for more at the moment. */
export class GroupCommitFull extends Error {
  override readonly name = "GroupCommitFull";
}

type Entry<Item, Result> = {
  readonly item: Item;
  readonly weight: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/** One kind of write. `stop()` waits for what was added. */
export class GroupCommit<Item, Result> {
  readonly #options: Required<Omit<GroupCommitOptions<Item, Result>, "deadline">>;
  readonly #deadline: GroupCommitOptions<Item, Result>["deadline"];
  #queue: Entry<Item, Result>[] = [];
  #weight = 0;
  #running: Promise<void> | undefined;

  constructor({ deadline, ...options }: GroupCommitOptions<Item, Result>) {
    this.#deadline = deadline;
    this.#options = {
      weigh: () => 0,
      batchWeightMax: Number.POSITIVE_INFINITY,
      queueWeightMax: Number.POSITIVE_INFINITY,
      ...options,
    };
  }

  /** Resolves once it is committed. Rejects with `GroupCommitFull`, or with what the database says of its transaction. */
  add(item: Item): Promise<Result> {
    const { queueMax, queueWeightMax, weigh } = this.#options;
    const weight = weigh(item);
    const isFull = this.#queue.length >= queueMax || (this.#weight > 0 && this.#weight + weight > queueWeightMax);
    if (isFull) return Promise.reject(new GroupCommitFull("too much is waiting to be written"));
    return new Promise((resolve, reject) => {
      this.#queue.push({ item, weight, resolve, reject });
      this.#weight += weight;
      this.#running ??= this.#run();
    });
  }

  /** Resolves when nothing waits any more. */
  async stop(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) await this.#write(this.#take());
    // No await since the queue was seen empty: what is added from here on starts a new run.
    this.#running = undefined;
  }

  #take(): Entry<Item, Result>[] {
    const { batchMax, batchWeightMax } = this.#options;
    let count = 0;
    let weight = 0;
    for (const entry of this.#queue) {
      if (count === batchMax || (count > 0 && weight + entry.weight > batchWeightMax)) break;
      count++;
      weight += entry.weight;
    }
    const taken = this.#queue.slice(0, count);
    this.#queue = this.#queue.slice(count);
    this.#weight -= weight;
    return taken;
  }

  async #write(entries: readonly Entry<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#flush(entries.map((entry) => entry.item));
      assert(results.length === entries.length, "a group commit must give one result for each item");
      entries.forEach((entry, index) => entry.resolve(results[index] as Result));
    } catch (error) {
      if (entries.length > 1 && isOfData(error)) return await this.#writeEach(entries);
      const refused = error instanceof Late ? [...entries, ...this.#queue.splice(0)] : entries;
      if (this.#queue.length === 0) this.#weight = 0;
      for (const entry of refused) entry.reject(error);
    }
  }

  #flush(items: readonly Item[]): Promise<readonly Result[]> {
    const writing = this.#options.flush(items);
    return this.#deadline === undefined ? writing : within(this.#deadline.clock, this.#deadline.waitMs, writing);
  }

  /** One that the database does not take must not stop those that happen to be written with it. */
  async #writeEach(entries: readonly Entry<Item, Result>[]): Promise<void> {
    for (const entry of entries) await this.#write([entry]);
  }
}

/** Errors of what was written (SQLSTATE classes 22, 23 and 54), as opposed to a database that is away. */
function isOfData(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return /^(?:22|23|54)/.test(code);
}
