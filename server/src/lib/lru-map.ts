// A bounded map that evicts the least recently used entry when it is full.
import { assert } from "./assert.ts";

/** Reading and writing an entry both count as use. */
export class LruMap<Key, Value> {
  readonly #max: number;
  /** A Map keeps insertion order, so a used entry is inserted again. */
  readonly #entries = new Map<Key, Value>();

  constructor(max: number) {
    assert(Number.isInteger(max) && max >= 1, "an LRU map holds at least one entry");
    this.#max = max;
  }

  get(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  /** The entry, which is made when there is none; as with a Map. */
  getOrInsertComputed(key: Key, make: () => Value): Value {
    const value = this.#entries.get(key) ?? make();
    this.set(key, value);
    return value;
  }

  set(key: Key, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  delete(key: Key): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Least recently used first; entries may be deleted during the iteration. */
  entries(): IterableIterator<[Key, Value]> {
    return this.#entries.entries();
  }
}
