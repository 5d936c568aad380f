// Remembers when the parts of a growing file were written. The file's length is noted from time to
// time; the answers are as exact as the notes are frequent. Pure.

/**
 * When so many lengths are remembered, every other one is forgotten. The number is even, so that
 * the last length stays.
 */
const lengthsMax = 1024;

/** The lengths that one file had, in ascending order, each with the time of its last write. */
export class WriteTimes {
  #lengths: { readonly length: number; readonly at: number }[] = [];

  /** The greatest remembered length; null when none is remembered. */
  get last(): number | null {
    return this.#lengths.at(-1)?.length ?? null;
  }

  /** Remembers a length, which must be greater than `last`, and the time `at` of its write. */
  add(length: number, at: number): void {
    this.#lengths.push({ length, at });
    if (this.#lengths.length === lengthsMax)
      this.#lengths = this.#lengths.filter((_, index) => index % 2 === 1);
  }

  /**
   * A time at which the byte after `offset` had certainly been written; null when it was written
   * after the last remembered length.
   */
  after(offset: number): number | null {
    return this.#lengths.find(({ length }) => length > offset)?.at ?? null;
  }

  /**
   * For each offset in `ends` (ascending), a time at which everything before it had certainly been
   * written; null when the file was shorter at all remembered lengths. Forgets the lengths below
   * the last offset.
   */
  take(ends: readonly number[]): (number | null)[] {
    const times: (number | null)[] = [];
    let index = 0;
    for (const end of ends) {
      let written = this.#lengths[index];
      while (written !== undefined && written.length < end) {
        index++;
        written = this.#lengths[index];
      }
      times.push(written?.at ?? null);
    }
    this.#lengths.splice(0, index);
    return times;
  }

  /** Forgets all lengths, since the file was emptied. */
  forget(): void {
    this.#lengths = [];
  }
}
