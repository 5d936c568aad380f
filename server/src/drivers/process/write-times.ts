// When the parts of a file that only grows were written, as far as its length was looked at
// meanwhile. Pure.

/** An even number of remembered lengths: beyond it, half of them are forgotten. */
const lengthsMax = 1024;

/** Lengths of one file, each with the time of the write that made it. */
export class WriteTimes {
  #lengths: { readonly length: number; readonly at: number }[] = [];

  /** The greatest length that is remembered; null: there is none. */
  get last(): number | null {
    return this.#lengths.at(-1)?.length ?? null;
  }

  /** Remembers a length, which is greater than those before. */
  add(length: number, at: number): void {
    this.#lengths.push({ length, at });
    if (this.#lengths.length === lengthsMax)
      this.#lengths = this.#lengths.filter((_, index) => index % 2 === 1);
  }

  /** When what follows `offset` was written, or later; null: after all that is remembered. */
  after(offset: number): number | null {
    return this.#lengths.find(({ length }) => length > offset)?.at ?? null;
  }

  /**
   * When what ends at each of these offsets, in ascending order, was written, or later; null: after
   * all that is remembered. Forgets the lengths before the last of them.
   */
  take(ends: readonly number[]): (number | null)[] {
    let index = 0;
    const times = ends.map((end) => {
      while ((this.#lengths[index]?.length ?? Number.POSITIVE_INFINITY) < end) index++;
      return this.#lengths[index]?.at ?? null;
    });
    this.#lengths.splice(0, index);
    return times;
  }

  forget(): void {
    this.#lengths = [];
  }
}
