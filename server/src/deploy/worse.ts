// Judges whether a new release is clearly worse than the one before it. Compares the failure rates
// of both releases in the same stretches of time (the Mantel-Haenszel test). An outage that both
// have does not count then, whatever share of the calls each gets. Also checks that the replicas of
// the new release start and become ready while those of the old release do. Pure.

/**
 * The calls of one release so far; the counts never decrease, except when the platform has started
 * again.
 */
export type CallCounts = {
  readonly calls: number;
  readonly failures: number;
  /** In how many seconds at least one call failed. */
  readonly failedSeconds: number;
};

/** The condition of one release at the moment. */
export type ReleaseCondition = CallCounts & {
  /** Replicas that take calls. */
  readonly serving: number;
  /** Replicas that run and are not ready for calls. */
  readonly unready: number;
  /** How many starts failed in a row. */
  readonly failedStarts: number;
  /** Why the latest start failed, as a sentence; null: the reason is unknown. */
  readonly startReason: string | null;
};

/** Both releases at one moment; `weight` is the share of the calls that the new release gets. */
export type Conditions = {
  readonly old: ReleaseCondition;
  readonly next: ReleaseCondition;
  readonly weight: number;
};

/** The calls of a stretch of time in which the weight was the same. */
type Stretch = {
  /** Calls of the new release. */
  readonly calls: number;
  /** Failed calls of the new release. */
  readonly failures: number;
  readonly oldCalls: number;
  readonly oldFailures: number;
};

/**
 * The observations since the comparison began: when the roll-out began, or when this process of the
 * platform started, if that was later.
 */
export type Comparison = {
  readonly latest: Conditions;
  /** The stretch in progress. */
  readonly open: Stretch;
  /** All calls since the comparison began. */
  readonly all: Stretch & { readonly failedSeconds: number };
  /** The sums over all closed stretches. */
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
  /** The variance that `excess` would have if both releases were equally good. */
  readonly variance: number;
  /** The differences of the failure rates, each times the weight of its stretch. */
  readonly difference: number;
  /** The weights of the stretches, by which `difference` is divided; not a share of the calls. */
  readonly weight: number;
};

/** A stretch with this many calls is closed: the next calls begin another one. */
const stretchCalls = 50;
/** The fewest calls of each release that allow a judgement. */
const callsMin = 10;
/**
 * The fewest seconds with failures that allow a judgement: one crash, which may be bad luck, fails
 * many calls at once.
 */
const failedSecondsMin = 3;
/**
 * By how many standard deviations the failures must exceed the expected ones. Far more than the
 * usual two, because the test is repeated again and again.
 */
const deviationsMin = 4.5;
/** A smaller difference of the failure rates does not matter, however certain it is. */
const differenceMin = 0.02;
/** How many starts must fail in a row to count; the first one or two may be bad luck. */
const failedStartsMin = 3;
/** How long the new release may be without a ready replica: a check may fail for a moment. */
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
  // When the open stretch is closed, the calls of this observation begin another one.
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
  // Subtracts half a failure: the usual correction when whole numbers are compared with a curve.
  if ((excess - 0.5) / Math.sqrt(variance) < deviationsMin) return null;
  return `${all.failures} of its ${all.calls} calls failed, but only ${all.oldFailures} of ${all.oldCalls} of the release before.`;
}

/**
 * Adds a stretch to the sums. If both releases were equally good, the expected failures of the new
 * one would be its share of all failures, `calls * failed / count`. `difference` grows by the
 * difference of the two failure rates, times the weight of the stretch, `calls * oldCalls / count`.
 */
function added(sums: Sums, { calls, failures, oldCalls, oldFailures }: Stretch): Sums {
  const count = calls + oldCalls;
  const failed = failures + oldFailures;
  if (calls === 0 || oldCalls === 0) return sums;
  // `variance` is the variance of the failures that the new release gets when all failures fall on
  // the calls at random. Both releases have calls, so `count - 1` is not 0.
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
