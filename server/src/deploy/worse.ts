// Judges whether a new release is clearly worse than the one before it. Compares the failure rates
// of both in the same stretches of time (the Mantel-Haenszel test), so that an outage of both does
// not count, whatever their shares of the calls. Also checks that the replicas of the new release
// start and become ready where those of the old one do. Pure.

/**
 * The calls of one release so far; the counts never decrease, except when the platform has started
 * again.
 */
export type CallCounts = {
  readonly calls: number;
  readonly failures: number;
  /** Seconds in which calls failed. */
  readonly failedSeconds: number;
};

/** The condition of one release at the moment. */
export type ReleaseCondition = CallCounts & {
  /** Replicas that take calls. */
  readonly serving: number;
  /** Replicas that run and are not ready for calls. */
  readonly unready: number;
  /** Starts that failed in a row, and the reason of the latest. */
  readonly failedStarts: number;
  readonly startReason: string | null;
};

/** Both releases at one moment; `weight` is the share of the calls that the new release gets. */
export type Conditions = {
  readonly old: ReleaseCondition;
  readonly next: ReleaseCondition;
  readonly weight: number;
};

/** A stretch in which the weight was the same. */
type Stretch = {
  readonly calls: number;
  readonly failures: number;
  readonly oldCalls: number;
  readonly oldFailures: number;
};

/** The observations since the comparison began, with the roll-out or with this platform process. */
export type Comparison = {
  readonly latest: Conditions;
  /** The stretch in progress. */
  readonly open: Stretch;
  /** All calls since the comparison began. */
  readonly all: Stretch & { readonly failedSeconds: number };
  /**
   * Sums over closed stretches: failures beyond the expected ones, their variance, and the weighted
   * difference of the failure rates.
   */
  readonly sums: Sums;
  /**
   * Since when the new release has had only unready replicas while the old one serves; null: that
   * is not so.
   */
  readonly unreadySinceMs: number | null;
};

type Sums = {
  /** Failures of the new release beyond those expected if both releases were equally good. */
  readonly excess: number;
  readonly variance: number;
  /** The differences of the failure rates, each times the weight of its stretch. */
  readonly difference: number;
  /** The weights of the stretches, by which `difference` is divided; not a share of the calls. */
  readonly weight: number;
};

/** Stretches of this many calls are closed. */
const stretchCalls = 50;
/** The fewest calls of each release that allow a judgement. */
const callsMin = 10;
/** The fewest seconds with failures: one crash, which may be bad luck, fails many calls at once. */
const failedSecondsMin = 3;
/**
 * By how many standard deviations the failures must exceed the expected ones. Far more than the
 * usual two, because the test is repeated again and again.
 */
const deviationsMin = 4.5;
/** A smaller difference of the failure rates does not matter, however certain it is. */
const differenceMin = 0.02;
/** Failed starts in a row; the first one or two may be bad luck. */
const failedStartsMin = 3;
/** How long no replica may be ready: a ready check may fail for a moment. */
const unreadyMsMax = 30_000;

const nothing: Stretch = { calls: 0, failures: 0, oldCalls: 0, oldFailures: 0 };

/** The beginning of a comparison: what happened before does not count. */
export function newComparison(latest: Conditions): Comparison {
  const sums = { excess: 0, variance: 0, difference: 0, weight: 0 };
  return {
    latest,
    open: nothing,
    all: { ...nothing, failedSeconds: 0 },
    sums,
    unreadySinceMs: null,
  };
}

/** The comparison after one more observation. */
export function compared(before: Comparison, latest: Conditions, nowMs: number): Comparison {
  const { next, old } = latest;
  // The new calls then begin another stretch.
  const isClosed =
    before.open.calls + before.open.oldCalls >= stretchCalls ||
    latest.weight !== before.latest.weight;
  const increase = {
    calls: growth(before.latest.next.calls, next.calls),
    failures: growth(before.latest.next.failures, next.failures),
    oldCalls: growth(before.latest.old.calls, old.calls),
    oldFailures: growth(before.latest.old.failures, old.failures),
  };
  const failedSeconds =
    before.all.failedSeconds + growth(before.latest.next.failedSeconds, next.failedSeconds);
  const isUnready = next.serving === 0 && next.unready > 0 && old.serving > 0;
  return {
    latest,
    open: sumOf(isClosed ? nothing : before.open, increase),
    all: { ...sumOf(before.all, increase), failedSeconds },
    sums: isClosed ? added(before.sums, before.open) : before.sums,
    unreadySinceMs: isUnready ? (before.unreadySinceMs ?? nowMs) : null,
  };
}

/** Why the new release is clearly worse, in a sentence for the app's owner; null: it is not. */
export function worseBecause(
  { latest, open, all, sums, unreadySinceMs }: Comparison,
  nowMs: number,
): string | null {
  const { next, old } = latest;
  if (next.failedStarts >= failedStartsMin && old.failedStarts === 0) {
    return `${next.failedStarts} of its starts failed in a row: ${next.startReason ?? "the reason is unknown."}`;
  }
  if (unreadySinceMs !== null && nowMs - unreadySinceMs >= unreadyMsMax) {
    return `None of its replicas has been ready for calls for ${unreadyMsMax / 1000} seconds.`;
  }
  if (all.calls < callsMin || all.oldCalls < callsMin || all.failedSeconds < failedSecondsMin)
    return null;
  const { excess, variance, difference, weight } = added(sums, open);
  if (variance <= 0 || difference / weight < differenceMin) return null;
  // Subtracts half a failure, since failures are whole numbers.
  if ((excess - 0.5) / Math.sqrt(variance) < deviationsMin) return null;
  return `${all.failures} of its ${all.calls} calls failed, but only ${all.oldFailures} of ${all.oldCalls} of the release before.`;
}

/**
 * Adds a stretch: the failures of the new release beyond those expected if both were equally good.
 */
function added(sums: Sums, { calls, failures, oldCalls, oldFailures }: Stretch): Sums {
  const count = calls + oldCalls;
  const failed = failures + oldFailures;
  if (calls === 0 || oldCalls === 0) return sums;
  // Both have calls, so `count - 1` is not 0.
  const variance = (calls * oldCalls * failed * (count - failed)) / (count * count * (count - 1));
  return {
    excess: sums.excess + failures - (calls * failed) / count,
    variance: sums.variance + variance,
    difference: sums.difference + (failures * oldCalls - oldFailures * calls) / count,
    weight: sums.weight + (calls * oldCalls) / count,
  };
}

function sumOf(a: Stretch, b: Stretch): Stretch {
  return {
    calls: a.calls + b.calls,
    failures: a.failures + b.failures,
    oldCalls: a.oldCalls + b.oldCalls,
    oldFailures: a.oldFailures + b.oldFailures,
  };
}

/** How much a count has grown; 0 if it has decreased, since it then began anew. */
function growth(before: number, now: number): number {
  return Math.max(0, now - before);
}
