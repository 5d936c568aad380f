// Decides which pool a replica gets, given the claims of the others and the replicas that come
// first. Pure.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { anyRegion, type PoolClaim, type Pool, type PoolGpus, type PoolRequest } from "./pool.ts";

/**
 * The free resources of a pool. Cores and memory are in thousandths, and may be negative after the
 * pool was made smaller.
 */
export type FreePool = {
  readonly pool: Pool;
  readonly cores: number;
  readonly memory: number;
  /** The number of usable GPUs that no replica has, by compute type. */
  readonly gpus: ReadonlyMap<string, number>;
};

/**
 * The requests of one replica, in its order of priority: one for each compute type that it can use.
 */
export type PoolWish = readonly PoolRequest[];

/** `cores`, `memory`, or a compute type. */
type Dimension = string;

/** Amounts are counted in thousandths: whole numbers add up exactly. */
const unit = 1000;
/**
 * The cost when an interruptible replica gets a pool that protected replicas can use: more than the
 * cost of any number of GPUs.
 */
const tierWaste = 1_000_000;

/** The unclaimed resources of each pool. */
export function freeOf(pools: readonly Pool[], claims: Iterable<PoolClaim>): FreePool[] {
  const empty = pools.map((pool) => ({
    pool,
    cores: unitsOf(pool.cores * pool.overcommit),
    memory: unitsOf(pool.memoryGb * pool.overcommit),
    gpus: new Map(pool.gpus.map(({ compute, usable }) => [compute, usable])),
  }));
  return freeAfter(empty, { ended: [], begun: claims });
}

/**
 * The free resources after the replicas with the claims `ended` have ended, and those with `begun`
 * have begun.
 */
export function freeAfter(
  free: readonly FreePool[],
  { ended, begun }: { readonly ended: Iterable<PoolClaim>; readonly begun: Iterable<PoolClaim> },
): FreePool[] {
  const byName = new Map(free.map((freePool) => [freePool.pool.name, freePool]));
  const add = (claim: PoolClaim, sign: 1 | -1): void => {
    const freePool = byName.get(claim.pool);
    if (freePool !== undefined) byName.set(claim.pool, changed(freePool, claim, sign));
  };
  for (const claim of ended) add(claim, 1);
  for (const claim of begun) add(claim, -1);
  return [...byName.values()];
}

/** The free resources after a claim has ended (`sign` 1) or has begun (`sign` -1). */
function changed(freePool: FreePool, claim: PoolClaim, sign: 1 | -1): FreePool {
  const { compute, gpuCount } = claim;
  const { cores, memory } = shareInPool(freePool.pool, claim);
  const gpus =
    gpuCount === 0
      ? freePool.gpus
      : new Map(freePool.gpus).set(compute, freeGpus(freePool, compute) + sign * gpuCount);
  return {
    pool: freePool.pool,
    cores: freePool.cores + sign * cores,
    memory: freePool.memory + sign * memory,
    gpus,
  };
}

/**
 * The claim for a replica: of its first request for which a pool has enough. `ahead`: the replicas
 * that come first, whether they fit now or wait; resources that they lack in a pool are kept for
 * them. Null: the replica must wait, or fits nowhere.
 */
export function choosePool(
  free: readonly FreePool[],
  wish: PoolWish,
  ahead: readonly PoolWish[],
): PoolClaim | null {
  let remaining = free;
  const keptForOthers = new Map<string, Set<Dimension>>();
  for (const earlier of ahead) {
    const claim = firstFit(remaining, earlier, keptForOthers);
    if (claim !== null) remaining = freeAfter(remaining, { ended: [], begun: [claim] });
    else keepLacking(earlier, remaining, keptForOthers);
  }
  return firstFit(remaining, wish, keptForOthers);
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
  const suitsProvider = provider === null || pool.provider === null || pool.provider === provider;
  const suitsRegion =
    region === null || region === anyRegion || pool.region === null || pool.region === region;
  const suitsTier = tier !== "protected" || pool.tier === "protected";
  return suitsProvider && suitsRegion && suitsTier;
}

/** True when replicas in the pool can have the compute type. */
export function offers(pool: Pool, compute: string): boolean {
  return compute === "CPU" ? pool.takesCpu : gpusOf(pool, compute).count > 0;
}

/** The compute types that replicas can have. */
export function computeOf(pools: readonly Pool[]): readonly string[] {
  const cpu = pools.some(({ takesCpu }) => takesCpu) ? ["CPU"] : [];
  const gpuTypes = pools.flatMap(({ gpus }) => gpus.map(({ compute }) => compute));
  return [...new Set([...cpu, ...gpuTypes])];
}

/** The GPUs of a type in a pool. */
export function gpusOf(pool: Pool, compute: string): PoolGpus {
  const gpus = pool.gpus.find((candidate) => candidate.compute === compute);
  return gpus ?? { compute, memoryGb: 0, count: 0, usable: 0 };
}

/**
 * The claim for the first request that fits. `keptForOthers`: for each pool, by name, the resources
 * that are kept for the replicas that come first.
 */
function firstFit(
  free: readonly FreePool[],
  wish: PoolWish,
  keptForOthers: ReadonlyMap<string, ReadonlySet<Dimension>>,
) {
  for (const request of wish) {
    const fitting = free.filter(
      (freePool) =>
        couldFit(freePool.pool, request) &&
        lacking(freePool, request).length === 0 &&
        !uses(request).some((dimension) => keptForOthers.get(freePool.pool.name)?.has(dimension)),
    );
    const [best] = fitting.toSorted((a, b) => waste(a, request) - waste(b, request));
    if (best !== undefined) return claimOf(best, request);
  }
  return null;
}

/**
 * The cost that the choice of a pool has for other replicas. Sorting by it keeps the order of pools
 * with the same cost. Replicas without GPUs avoid pools with GPUs, and interruptible replicas avoid
 * pools that protected ones can use. GPUs come from the pool with the fewest free.
 */
function waste(freePool: FreePool, { compute, tier }: PoolRequest): number {
  const { pool } = freePool;
  const gpuTotal = pool.gpus.reduce((sum, { count }) => sum + count, 0);
  const gpuWaste = compute === "CPU" ? gpuTotal : freeGpus(freePool, compute);
  const wastesTier = tier !== "protected" && pool.tier === "protected";
  return wastesTier ? tierWaste + gpuWaste : gpuWaste;
}

/** Keeps for the replica, in each pool that could have it, the resources that it lacks there. */
function keepLacking(
  wish: PoolWish,
  free: readonly FreePool[],
  keptForOthers: Map<string, Set<Dimension>>,
): void {
  for (const request of wish) {
    for (const freePool of free.filter(({ pool }) => couldFit(pool, request))) {
      const dimensions = getOrInsert(keptForOthers, freePool.pool.name, () => new Set());
      for (const dimension of lacking(freePool, request)) dimensions.add(dimension);
    }
  }
}

/**
 * The resources of which the pool has too little free for the replica: `cores`, `memory`, or its
 * compute type.
 */
export function lacking(freePool: FreePool, request: PoolRequest): Dimension[] {
  const { cores, memory } = shareInPool(freePool.pool, request);
  const { compute, gpuCount } = request;
  const lacks: Dimension[] = [];
  if (freePool.cores < cores) lacks.push("cores");
  if (freePool.memory < memory) lacks.push("memory");
  if (freeGpus(freePool, compute) < gpuCount) lacks.push(compute);
  return lacks;
}

/** The resources that a replica needs: each needs cores and memory. */
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
 * The cores and the memory that count for a replica, in thousandths: in a pool that is shared, no
 * replica counts for more than the whole pool.
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
