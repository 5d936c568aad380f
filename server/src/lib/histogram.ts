// Counts durations in buckets, as plain numbers that are cheap to increment, for metrics.

/** From a millisecond to a quarter of an hour, in seconds. */
const boundsUsually = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900,
] as const;

/** Counts durations. */
export class Histogram {
  /** Upper bounds; a last bucket counts everything longer. */
  readonly boundsSeconds: readonly number[];
  readonly buckets: Float64Array;
  sumMs = 0;
  readonly #boundsMs: readonly number[];

  constructor(boundsSeconds: readonly number[] = boundsUsually) {
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
 * Below which duration this share of what several histograms counted is, in milliseconds, estimated
 * within its bucket; null: they counted nothing.
 */
export function quantileMs(
  histograms: readonly (readonly number[])[],
  share: number,
): number | null {
  const buckets = [...boundsUsually, Infinity].map((_, at) =>
    histograms.reduce((sum, one) => sum + (one[at] ?? 0), 0),
  );
  let rest = buckets.reduce((sum, count) => sum + count, 0) * share;
  for (const [index, count] of buckets.entries()) {
    const from = boundsUsually[index - 1] ?? 0;
    // The last bucket has no end.
    const width = (boundsUsually[index] ?? from) - from;
    if (rest <= count && count > 0) return (from + (width * rest) / count) * 1000;
    rest -= count;
  }
  return null;
}
