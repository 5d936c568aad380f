// A bounded map that evicts the least recently used entry when it is full.
import { assert } from "./assert.ts";

/** A map whose entries are in the order of their last use, by reading or writing: oldest first. */
export class LruMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;

  constructor(max: number) {
    super();
    assert(Number.isInteger(max) && max >= 1, "an LRU map holds at least one entry");
    this.#max = max;
  }

  override get(key: Key): Value | undefined {
    const value = super.get(key);
    // A Map keeps insertion order, so a used entry is inserted again.
    if (value !== undefined && super.delete(key)) super.set(key, value);
    return value;
  }

  override set(key: Key, value: Value): this {
    super.delete(key);
    super.set(key, value);
    if (this.size > this.#max) for (const oldest of this.keys().take(1)) super.delete(oldest);
    return this;
  }
}
