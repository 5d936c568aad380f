// How often each of a few things has happened, for metrics.

/** Keys are of a closed list, or few by nature. Those given are there from the beginning, at zero. */
export class Tally<Key extends string> extends Map<Key, number> {
  constructor(...keys: readonly Key[]) {
    super(keys.map((key) => [key, 0]));
  }

  count(key: Key): void {
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}
