// Divides an app's calls between the releases that serve it: pure. A release gets its share only as
// far as its replicas can carry it, and the release that gives calls up keeps the replicas for the
// rest: no switch ends a replica whose successor does not serve yet.

/** A release that serves, or a group of releases that leave. */
export type Party = {
  /**
   * The part of the calls that it is to get, from 0 to 1; 0: it leaves. The targets of an app sum
   * to 1.
   */
  readonly target: number;
  /** The number of replicas that would serve all calls. */
  readonly needed: number;
  /** The number of its replicas that take calls. */
  readonly ready: number;
};

/** `weight`: the part of the calls that it gets now; `wanted`: how many replicas it should have. */
export type Division = { readonly weight: number; readonly wanted: number };

/** Ignores excess from binary fractions. */
const epsilon = 1e-9;

/** The division of each party, in their order. The weights sum to 1. */
export function divide(parties: readonly Party[]): Division[] {
  const carried = parties.map(({ target, needed, ready }) =>
    ready === 0 ? 0 : target * Math.min(1, ready / Math.max(1, ceil(needed * target))),
  );
  const rest = Math.max(0, 1 - sumOf(carried));
  const spare = parties.map(({ needed, ready }, index) =>
    Math.max(0, ready - needed * (carried[index] ?? 0)),
  );
  const bySpare = sumOf(spare);
  const byReady = sumOf(parties.map(({ ready }) => ready));
  return parties.map(({ target, needed, ready }, index) => {
    let ofRest = target;
    if (bySpare > epsilon) ofRest = (spare[index] ?? 0) / bySpare;
    else if (byReady > 0) ofRest = ready / byReady;
    const weight = (carried[index] ?? 0) + rest * ofRest;
    // Rounds down what leaves: its last replica must not keep the slot that its successor needs.
    const kept = target === 0 ? Math.floor(needed * rest + epsilon) : ceil(needed * weight);
    return { weight, wanted: Math.max(kept, ceil(needed * target)) };
  });
}

/**
 * How many replicas of all releases of an app may start or serve while calls move from one to
 * another: a quarter more than the maximum, as during a restart.
 */
export function countWhileMoving(replicasMax: number): number {
  return replicasMax + Math.max(1, Math.floor(replicasMax / 4));
}

function ceil(count: number): number {
  return Math.ceil(count - epsilon);
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}
