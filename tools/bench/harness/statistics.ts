// What is calculated from measured values.

/** The smallest of the values that at least this share of them does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** The median; of an even number of values, the lower middle one. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The median of the ratios of each round: two that take turns are compared as neighbours. */
export function ratioOfRounds(ours: readonly number[], theirs: readonly number[]): number {
  return median(ours.map((one, round) => one / (theirs[round] ?? Number.NaN)));
}
