// Counts durations in buckets, as plain numbers that are cheap to increment, for metrics.

/** Bounds from a millisecond to a quarter of an hour, in seconds. */
const defaultBounds = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900,
] as const;

/** Counts durations in buckets. */
export class Histogram {
  /** The upper bounds of the buckets; one more bucket counts all longer durations. */
  readonly boundsSeconds: readonly number[];
  /** How many durations each bucket has counted. */
  readonly buckets: Float64Array;
  /** The sum of all counted durations. */
  sumMs = 0;
  readonly #boundsMs: readonly number[];

  constructor(boundsSeconds: readonly number[] = defaultBounds) {
    this.boundsSeconds = boundsSeconds;
    this.#boundsMs = boundsSeconds.map((seconds) => seconds * 1000);
    this.buckets = new Float64Array(boundsSeconds.length + 1);
  }

  add(ms: number): void {
    const bounds = this.#boundsMs;
    let index = 0;
    while (index < bounds.length && ms > (bounds[index] ?? 0)) index++;
    this.buckets[index] = (this.buckets[index] ?? 0) + 1;
    this.sumMs += ms;
  }
}

/**
 * Returns a quantile of all durations that these histograms counted, in milliseconds: `share` of
 * them are shorter. Where the quantile lies within its bucket is estimated. Null when nothing was
 * counted. Each histogram is given as its buckets, with the default bounds.
 */
export function quantileMs(
  histograms: readonly (readonly number[])[],
  share: number,
): number | null {
  const upperBounds = [...defaultBounds, Infinity];
  const counts = upperBounds.map((_, index) =>
    histograms.reduce((sum, buckets) => sum + (buckets[index] ?? 0), 0),
  );
  const total = counts.reduce((sum, count) => sum + count, 0);
  let rest = total * share;
  for (const [index, count] of counts.entries()) {
    const from = defaultBounds[index - 1] ?? 0;
    // The last bucket has no upper bound, so a quantile in it is given as its lower bound.
    const to = defaultBounds[index] ?? from;
    if (rest <= count && count > 0) {
      const seconds = from + ((to - from) * rest) / count;
      return seconds * 1000;
    }
    rest -= count;
  }
  return null;
}
