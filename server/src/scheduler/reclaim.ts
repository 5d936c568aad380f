// Chooses interruptible replicas to end for protected ones, when no pool has enough for these.
// Never chooses a protected replica. Counts on replicas that are ending already, chooses no more
// than are needed, and prefers those whose end disturbs the fewest calls. When different replicas
// wait, a pool may later be filled in another way than planned here; then one more may end. Pure.
import { choosePool, freeAfter, type FreePool, type PoolWish } from "#drivers/pools/choose-pool.ts";
import type { Pool, PoolClaim } from "#drivers/pools/pool.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";

/** A replica that has a claim. */
export type ClaimingReplica = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly claim: PoolClaim;
  /** It is ending: its claim will be free. */
  readonly isDraining: boolean;
  /** It must not be taken, whatever its tier: it is the trial of a build. */
  readonly isTrial: boolean;
  /** Number of calls that it works on. */
  readonly running: number;
  readonly beganAtMs: number;
};

/** A protected release that waits, and its wish. */
export type ProtectedWish = { readonly appId: AppId; readonly wish: PoolWish };

/** Why a replica ends that makes way. */
export const reclaimedReason =
  "A protected replica of another app took its place, because no pool had enough for both and its computeTier is interruptible.";

/** The replicas that are to end, for those that wait in this order. */
export function chooseReclaimed(situation: {
  readonly pools: readonly Pool[];
  /** What is free of them now. */
  readonly free: readonly FreePool[];
  readonly replicas: readonly ClaimingReplica[];
  readonly waiting: readonly ProtectedWish[];
}): ReplicaId[] {
  const { pools, free, replicas, waiting } = situation;
  let staying = replicas.filter(({ isDraining }) => !isDraining);
  const settled: PoolClaim[] = [];
  const unsettled: PoolWish[] = [];
  const reclaimed: ReplicaId[] = [];
  /**
   * Apps that get nothing now: their own replicas do not make way for them, nor for others in their
   * stead.
   */
  const apps = new Set<AppId>();
  for (const { appId, wish } of waiting) {
    const fitAmong = (left: readonly ClaimingReplica[]): PoolClaim | null => {
      const stays = new Set(left);
      const ended = replicas.flatMap((one) => (stays.has(one) ? [] : [one.claim]));
      return choosePool(freeAfter(free, { ended, begun: settled }), wish, unsettled);
    };
    // What fits beside those that are still ending starts there now, and is in nobody's way later.
    const now = fitAmong(replicas);
    const fit = (left: readonly ClaimingReplica[]): PoolClaim | null => now ?? fitAmong(left);
    const candidates = staying.filter(
      (one) =>
        one.claim.tier !== "protected" &&
        !one.isTrial &&
        one.appId !== appId &&
        !apps.has(one.appId),
    );
    const going = fit(staying) === null ? fewest(pools, { candidates, staying, fit }) : [];
    const left = staying.filter((one) => !going.includes(one));
    const claim = fit(left);
    if (claim === null) {
      unsettled.push(wish);
      apps.add(appId);
    } else {
      settled.push(claim);
      staying = left;
      reclaimed.push(...going.map(({ replicaId }) => replicaId));
    }
  }
  return reclaimed;
}

type Choice = {
  readonly candidates: readonly ClaimingReplica[];
  readonly staying: readonly ClaimingReplica[];
  /** What the new replica would claim if only `left` stayed; null: no pool would have enough. */
  readonly fit: (left: readonly ClaimingReplica[]) => PoolClaim | null;
};

/**
 * Returns, of the smallest sets that are enough (one of each pool), the one with the fewest running
 * calls, then replicas; [] when there is none.
 */
function fewest(pools: readonly Pool[], choice: Choice): readonly ClaimingReplica[] {
  const sets = pools.map(({ name }) => smallest(name, choice)).filter((set) => set.length > 0);
  const calls = (set: readonly ClaimingReplica[]): number =>
    set.reduce((sum, { running }) => sum + running, 0);
  return (
    sets.toSorted((one, other) => calls(one) - calls(other) || one.length - other.length)[0] ?? []
  );
}

/**
 * Takes the least disturbing ones of the pool until there is enough, then spares those that turn
 * out not to be needed.
 */
function smallest(pool: string, { candidates, staying, fit }: Choice): ClaimingReplica[] {
  const own = candidates.filter(({ claim }) => claim.pool === pool).toSorted(byDisturbance);
  const isEnough = (going: readonly ClaimingReplica[]): boolean =>
    fit(staying.filter((one) => !going.includes(one))) !== null;
  if (!isEnough(own)) return [];
  let enough = own.length;
  let tooFew = 0;
  while (enough - tooFew > 1) {
    const middle = Math.floor((enough + tooFew) / 2);
    if (isEnough(own.slice(0, middle))) enough = middle;
    else tooFew = middle;
  }
  let going = own.slice(0, enough);
  for (const one of going.toReversed()) {
    const others = going.filter((other) => other !== one);
    if (isEnough(others)) going = others;
  }
  return going;
}

/** Orders replicas by how little their end disturbs: fewer calls first, then the younger. */
function byDisturbance(one: ClaimingReplica, other: ClaimingReplica): number {
  return one.running - other.running || other.beganAtMs - one.beganAtMs;
}
