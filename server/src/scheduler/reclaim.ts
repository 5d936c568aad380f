// Chooses interruptible replicas to end for protected ones when no pool has enough free. Never
// chooses a protected replica. Counts on the resources of replicas that are ending already, chooses
// no more replicas than are needed, and prefers those whose end disturbs the fewest calls. If
// several releases wait, a pool may later be filled in another way than planned here, and one more
// replica may end. Pure.
import { choosePool, freeAfter, type FreePool, type PoolWish } from "#drivers/pools/choose-pool.ts";
import type { Pool, PoolClaim } from "#drivers/pools/pool.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";

/** A replica that has a claim. */
export type ClaimingReplica = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly claim: PoolClaim;
  /** True when the replica is ending, so that its claim will be free. */
  readonly isDraining: boolean;
  /** True for the trial of a build, which is never reclaimed, whatever its tier. */
  readonly isTrial: boolean;
  /** Number of calls that the replica is working on. */
  readonly running: number;
  readonly beganAtMs: number;
};

/** A protected release that waits, and its wish. */
export type ProtectedWish = { readonly appId: AppId; readonly wish: PoolWish };

/** The reason that is shown for a reclaimed replica. */
export const reclaimedReason =
  "A protected replica of another app took its place, because no pool had enough for both and its computeTier is interruptible.";

/** The replicas to end so that the waiting releases can start; earlier ones come first. */
export function chooseReclaimed(situation: {
  readonly pools: readonly Pool[];
  /** What is free in the pools now. */
  readonly free: readonly FreePool[];
  readonly replicas: readonly ClaimingReplica[];
  readonly waiting: readonly ProtectedWish[];
}): ReplicaId[] {
  const { pools, free, replicas, waiting } = situation;
  let staying = replicas.filter(({ isDraining }) => !isDraining);
  /** The claims that waiting releases will get. */
  const settled: PoolClaim[] = [];
  /** The wishes of releases that get nothing now, but still come before later releases. */
  const unsettled: PoolWish[] = [];
  const reclaimed: ReplicaId[] = [];
  /** Apps that get nothing now. Their own replicas do not make way for other apps, either. */
  const unservedApps = new Set<AppId>();
  for (const { appId, wish } of waiting) {
    // The claim that the release gets once all replicas except `remaining` have ended.
    const fitAmong = (remaining: readonly ClaimingReplica[]): PoolClaim | null => {
      const remainingSet = new Set(remaining);
      const ended = replicas
        .filter((replica) => !remainingSet.has(replica))
        .map(({ claim }) => claim);
      return choosePool(freeAfter(free, { ended, begun: settled }), wish, unsettled);
    };
    // If a claim fits beside all replicas, even those that are still ending, the release gets it
    // whoever ends.
    const claimNow = fitAmong(replicas);
    const fit = (remaining: readonly ClaimingReplica[]): PoolClaim | null =>
      claimNow ?? fitAmong(remaining);
    const candidates = staying.filter(
      (replica) =>
        replica.claim.tier !== "protected" &&
        !replica.isTrial &&
        replica.appId !== appId &&
        !unservedApps.has(replica.appId),
    );
    const ending = fit(staying) === null ? fewest(pools, { candidates, staying, fit }) : [];
    const remaining = staying.filter((replica) => !ending.includes(replica));
    const claim = fit(remaining);
    if (claim === null) {
      unsettled.push(wish);
      unservedApps.add(appId);
    } else {
      settled.push(claim);
      staying = remaining;
      reclaimed.push(...ending.map(({ replicaId }) => replicaId));
    }
  }
  return reclaimed;
}

type Choice = {
  readonly candidates: readonly ClaimingReplica[];
  readonly staying: readonly ClaimingReplica[];
  /** The new replica's claim if only `remaining` stayed; null: no pool would have enough. */
  readonly fit: (remaining: readonly ClaimingReplica[]) => PoolClaim | null;
};

/**
 * Finds in each pool the smallest set of replicas whose end is enough. Returns the set with the
 * fewest running calls, among equals that with the fewest replicas; empty: no set is enough.
 */
function fewest(pools: readonly Pool[], choice: Choice): readonly ClaimingReplica[] {
  const sets = pools.map(({ name }) => smallest(name, choice)).filter((set) => set.length > 0);
  const calls = (set: readonly ClaimingReplica[]): number =>
    set.reduce((sum, { running }) => sum + running, 0);
  const [best = []] = sets.toSorted(
    (left, right) => calls(left) - calls(right) || left.length - right.length,
  );
  return best;
}

/**
 * Takes the least disturbing candidates of the pool until there is enough capacity, then spares
 * those that turn out to be unnecessary. Empty: there is never enough.
 */
function smallest(pool: string, { candidates, staying, fit }: Choice): ClaimingReplica[] {
  const inPool = candidates.filter(({ claim }) => claim.pool === pool).toSorted(byDisturbance);
  const isEnough = (ending: readonly ClaimingReplica[]): boolean =>
    fit(staying.filter((replica) => !ending.includes(replica))) !== null;
  if (!isEnough(inPool)) return [];
  // How many of the first ones are enough is found by halving, since each test costs time.
  let enough = inPool.length;
  let tooFew = 0;
  while (enough - tooFew > 1) {
    const middle = Math.floor((enough + tooFew) / 2);
    if (isEnough(inPool.slice(0, middle))) enough = middle;
    else tooFew = middle;
  }
  let chosen = inPool.slice(0, enough);
  for (const replica of chosen.toReversed()) {
    const others = chosen.filter((other) => other !== replica);
    if (isEnough(others)) chosen = others;
  }
  return chosen;
}

/** Sorts replicas by how little their end disturbs: first those with fewer calls, then younger. */
function byDisturbance(left: ClaimingReplica, right: ClaimingReplica): number {
  return left.running - right.running || right.beganAtMs - left.beganAtMs;
}
