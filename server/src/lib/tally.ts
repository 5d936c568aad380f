// Counts how often each of a few events happened, for metrics.

/** Keys come from a closed list, or are few by nature. The given keys start at zero. */
export class Tally<Key extends string> extends Map<Key, number> {
  constructor(...keys: readonly Key[]) {
    super(keys.map((key) => [key, 0]));
  }

  count(key: Key): void {
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}
