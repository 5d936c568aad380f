// Divides an app's calls between the releases that serve it. Pure. A release gets its share only as
// far as its replicas can carry it, and the release that gives up calls keeps enough replicas for
// the rest, so that no replica ends before its successor serves.

/** A release that serves, or a group of releases that leave. */
export type Party = {
  /**
   * The share of the calls that the party should get, from 0 to 1; 0: it leaves. The targets of an
   * app sum to 1.
   */
  readonly target: number;
  /** The number of replicas that would serve all calls. */
  readonly needed: number;
  /** The number of the party's replicas that take calls. */
  readonly ready: number;
};

/** A party's share of the calls now (`weight`), and how many replicas it should have (`wanted`). */
export type Division = { readonly weight: number; readonly wanted: number };

/** Differences smaller than this are rounding errors of floating-point arithmetic. */
const epsilon = 1e-9;

/**
 * Divides the calls. Returns one result for each party, in the order of `parties`; the weights sum
 * to 1.
 */
export function divide(parties: readonly Party[]): Division[] {
  // For each party, the share of the calls that its replicas can carry.
  const carried = parties.map(carriedBy);
  // The rest goes to parties with replicas to spare, or else to all with replicas.
  const rest = Math.max(0, 1 - sumOf(carried));
  // How many replicas a party has beyond those that the calls it carries need. Each list has an
  // element for each party, so `?? 0` only satisfies the compiler.
  const spare = parties.map(({ needed, ready }, index) =>
    Math.max(0, ready - needed * (carried[index] ?? 0)),
  );
  const spareSum = sumOf(spare);
  const readySum = sumOf(parties.map(({ ready }) => ready));
  return parties.map(({ target, needed, ready }, index) => {
    // Without any replica that takes calls, the weights are the targets.
    let shareOfRest = target;
    if (spareSum > epsilon) shareOfRest = (spare[index] ?? 0) / spareSum;
    else if (readySum > 0) shareOfRest = ready / readySum;
    const weight = (carried[index] ?? 0) + rest * shareOfRest;
    // For a leaving party the number is rounded down, so that its last replica does not occupy the
    // slot that its successor needs.
    const neededNow = target === 0 ? Math.floor(needed * rest + epsilon) : ceil(needed * weight);
    return { weight, wanted: Math.max(neededNow, ceil(needed * target)) };
  });
}

/** How much of its target share the party's replicas can carry, as a share of all calls. */
function carriedBy({ target, needed, ready }: Party): number {
  if (ready === 0) return 0;
  const neededForTarget = Math.max(1, ceil(needed * target));
  return target * Math.min(1, ready / neededForTarget);
}

/**
 * How many replicas of all releases of an app may start or serve while calls move from one to
 * another: a quarter more than the maximum, and at least one more, as during a restart.
 */
export function countWhileMoving(replicasMax: number): number {
  return replicasMax + Math.max(1, Math.floor(replicasMax / 4));
}

function ceil(count: number): number {
  return Math.ceil(count - epsilon);
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
