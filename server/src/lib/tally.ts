// Counts how often each of a few events happened, for metrics.

/**
 * The count of each key. There must be few different keys, since none is ever removed. The keys
 * given to the constructor start at zero.
 */
export class Tally<Key extends string> extends Map<Key, number> {
  constructor(...keys: readonly Key[]) {
    super(keys.map((key) => [key, 0]));
  }

  count(key: Key): void {
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}
