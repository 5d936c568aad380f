// Packs replicas into pools: which pool a replica gets, in view of what others have and of those
// that have waited longer. Pure.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { anyRegion, type PoolClaim, type Pool, type PoolGpus, type PoolRequest } from "./pool.ts";

/**
 * What is free in a pool. Cores and memory in thousandths; negative after a pool was made smaller.
 */
export type FreePool = {
  readonly pool: Pool;
  readonly cores: number;
  readonly memory: number;
  /** How many usable GPUs of each compute type no replica has. */
  readonly gpus: ReadonlyMap<string, number>;
};

/**
 * The requests of one replica, in its order of priority: one for each compute type that it can use.
 */
export type PoolWish = readonly PoolRequest[];

/** `cores`, `memory`, or a compute type. */
type Dimension = string;

/** Whole thousandths add up exactly. */
const unit = 1000;

/** What the claims leave of each pool. */
export function freeOf(pools: readonly Pool[], claims: Iterable<PoolClaim>): FreePool[] {
  const empty = pools.map((pool) => ({
    pool,
    cores: unitsOf(pool.cores * pool.overcommit),
    memory: unitsOf(pool.memoryGb * pool.overcommit),
    gpus: new Map(pool.gpus.map(({ compute, usable }) => [compute, usable])),
  }));
  return freeAfter(empty, { ended: [], begun: claims });
}

/** What is free when the replicas with some claims have ended, and others have begun. */
export function freeAfter(
  free: readonly FreePool[],
  { ended, begun }: { readonly ended: Iterable<PoolClaim>; readonly begun: Iterable<PoolClaim> },
): FreePool[] {
  const left = new Map(free.map((one) => [one.pool.name, one]));
  const add = (claim: PoolClaim, sign: 1 | -1): void => {
    const one = left.get(claim.pool);
    if (one !== undefined) left.set(claim.pool, changed(one, claim, sign));
  };
  for (const claim of ended) add(claim, 1);
  for (const claim of begun) add(claim, -1);
  return [...left.values()];
}

function changed(one: FreePool, claim: PoolClaim, sign: 1 | -1): FreePool {
  const { compute, gpuCount } = claim;
  const { cores, memory } = shareInPool(one.pool, claim);
  const gpus =
    gpuCount === 0
      ? one.gpus
      : new Map(one.gpus).set(compute, freeGpus(one, compute) + sign * gpuCount);
  return {
    pool: one.pool,
    cores: one.cores + sign * cores,
    memory: one.memory + sign * memory,
    gpus,
  };
}

/**
 * The claim for a replica: of the first request for which there is a pool with enough. `ahead`:
 * those that come first, whether they fit now or wait; what they lack of a pool is not given to
 * others. Null: it must wait, or fits nowhere.
 */
export function choosePool(
  free: readonly FreePool[],
  wish: PoolWish,
  ahead: readonly PoolWish[] = [],
): PoolClaim | null {
  let left = free;
  const shut = new Map<string, Set<Dimension>>();
  for (const one of ahead) {
    const claim = firstFit(left, one, shut);
    if (claim !== null) left = freeAfter(left, { ended: [], begun: [claim] });
    else shutFor(one, left, shut);
  }
  return firstFit(left, wish, shut);
}

/** True when the pool, if it were empty, would have enough for the replica. */
export function couldFit(pool: Pool, request: PoolRequest): boolean {
  if (!isAllowed(pool, request) || !offers(pool, request.compute)) return false;
  return (
    unitsOf(request.cpuCores) <= unitsOf(pool.cores * pool.overcommit) &&
    unitsOf(request.memoryGb) <= unitsOf(pool.memoryGb * pool.overcommit) &&
    gpusOf(pool, request.compute).count >= request.gpuCount
  );
}

/** True when location and tier of the pool suit the replica. */
export function isAllowed(
  pool: Pool,
  { provider, region, tier }: Omit<PoolRequest, "compute">,
): boolean {
  const isThere = provider === null || pool.provider === null || pool.provider === provider;
  const isRegion =
    region === null || region === anyRegion || pool.region === null || pool.region === region;
  return isThere && isRegion && (tier !== "protected" || pool.tier === "protected");
}

/** True when replicas in the pool can have the compute type. */
export function offers(pool: Pool, compute: string): boolean {
  return compute === "CPU" ? pool.takesCpu : gpusOf(pool, compute).count > 0;
}

/** The compute types that replicas can have. */
export function computeOf(pools: readonly Pool[]): readonly string[] {
  const cpu = pools.some(({ takesCpu }) => takesCpu) ? ["CPU"] : [];
  return [...new Set([...cpu, ...pools.flatMap(({ gpus }) => gpus.map(({ compute }) => compute))])];
}

/** The GPUs of a type in a pool. */
export function gpusOf(pool: Pool, compute: string): PoolGpus {
  const gpus = pool.gpus.find((one) => one.compute === compute);
  return gpus ?? { compute, memoryGb: 0, count: 0, usable: 0 };
}

function firstFit(
  free: readonly FreePool[],
  wish: PoolWish,
  shut: ReadonlyMap<string, ReadonlySet<Dimension>>,
) {
  for (const request of wish) {
    const fitting = free.filter(
      (one) =>
        couldFit(one.pool, request) &&
        lacking(one, request).length === 0 &&
        !uses(request).some((dimension) => shut.get(one.pool.name)?.has(dimension)),
    );
    const [best] = fitting.toSorted((one, other) => waste(one, request) - waste(other, request));
    if (best !== undefined) return claimOf(best, request);
  }
  return null;
}

/**
 * How much a choice would spoil for others; sorting keeps the order of the pools otherwise.
 * Replicas without GPUs leave pools with GPUs alone, interruptible ones those that protected ones
 * can use; GPUs come from where the fewest are left.
 */
function waste(one: FreePool, { compute, tier }: PoolRequest): number {
  const tierWaste = tier !== "protected" && one.pool.tier === "protected" ? 1 : 0;
  const all = one.pool.gpus.reduce((sum, { count }) => sum + count, 0);
  return tierWaste * 1_000_000 + (compute === "CPU" ? all : freeGpus(one, compute));
}

function shutFor(
  wish: PoolWish,
  free: readonly FreePool[],
  shut: Map<string, Set<Dimension>>,
): void {
  for (const request of wish) {
    for (const one of free.filter(({ pool }) => couldFit(pool, request))) {
      const closed = getOrInsert(shut, one.pool.name, () => new Set());
      for (const dimension of lacking(one, request)) closed.add(dimension);
    }
  }
}

/** What is not free of what the replica needs: `cores`, `memory`, or its compute type. */
export function lacking(one: FreePool, request: PoolRequest): Dimension[] {
  const { cores, memory } = shareInPool(one.pool, request);
  return [
    ...(one.cores < cores ? ["cores"] : []),
    ...(one.memory < memory ? ["memory"] : []),
    ...(freeGpus(one, request.compute) < request.gpuCount ? [request.compute] : []),
  ];
}

function uses({ compute, gpuCount }: PoolRequest): Dimension[] {
  return ["cores", "memory", ...(gpuCount > 0 ? [compute] : [])];
}

function claimOf({ pool }: FreePool, request: PoolRequest): PoolClaim {
  const { compute, gpuCount, cpuCores, memoryGb, tier } = request;
  return { pool: pool.name, compute, gpuCount, cpuCores, memoryGb, tier };
}

/** How many GPUs of a type are free. */
export function freeGpus({ gpus }: FreePool, compute: string): number {
  return gpus.get(compute) ?? 0;
}

/**
 * What counts of a replica, in thousandths: where cores are shared anyway, nobody counts for more
 * than all of them.
 */
export function shareInPool(
  pool: Pool,
  { cpuCores, memoryGb }: Pick<PoolClaim, "cpuCores" | "memoryGb">,
) {
  const isShared = pool.overcommit > 1;
  return {
    cores: unitsOf(isShared ? Math.min(cpuCores, pool.cores) : cpuCores),
    memory: unitsOf(isShared ? Math.min(memoryGb, pool.memoryGb) : memoryGb),
  };
}

function unitsOf(amount: number): number {
  return Math.round(amount * unit);
}
