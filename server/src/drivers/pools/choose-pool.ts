// Packs replicas into pools: which pool and which GPUs a replica gets, in view of what others have
// and of those that have waited longer. Pure: what is free is derived from the claims of all
// replicas each time.
import { anyRegion, type PoolClaim, type Pool, type PoolRequest } from "./pool.ts";

/**
 * What is free in a pool. Cores and memory in thousandths; negative after a pool was made smaller.
 */
export type FreePool = {
  readonly pool: Pool;
  readonly cores: number;
  readonly memory: number;
  /** Ids of usable GPUs that no replica has. */
  readonly gpus: readonly string[];
};

/**
 * The requests of one replica, in its order of priority: one for each compute type that it can use.
 */
export type PoolWish = readonly PoolRequest[];

/** `cores`, `memory`, or a compute type. */
type Dimension = string;

/** Whole thousandths add up exactly. */
const unit = 1000;

/**
 * What the claims leave of each pool. A GPU that any claim names is not free, whatever its pool is
 * now.
 */
export function freeOf(pools: readonly Pool[], claims: Iterable<PoolClaim>): FreePool[] {
  const used = new Map<string, { cores: number; memory: number }>();
  const taken = new Set<string>();
  const byName = new Map(pools.map((pool) => [pool.name, pool]));
  for (const claim of claims) {
    for (const id of claim.gpus) taken.add(id);
    const pool = byName.get(claim.pool);
    if (pool === undefined) continue;
    const { cores, memory } = shareInPool(pool, claim);
    const sum = used.get(pool.name) ?? { cores: 0, memory: 0 };
    used.set(pool.name, { cores: sum.cores + cores, memory: sum.memory + memory });
  }
  return pools.map((pool) => ({
    pool,
    cores: unitsOf(pool.cores * pool.overcommit) - (used.get(pool.name)?.cores ?? 0),
    memory: unitsOf(pool.memoryGb * pool.overcommit) - (used.get(pool.name)?.memory ?? 0),
    gpus: pool.gpus.filter(({ id, isUsable }) => isUsable && !taken.has(id)).map(({ id }) => id),
  }));
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
    if (claim !== null) left = without(left, claim);
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
    gpusOf(pool, request.compute).length >= request.gpuCount
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
  return compute === "CPU" ? pool.takesCpu : gpusOf(pool, compute).length > 0;
}

/** The compute types that replicas can have. */
export function computeOf(pools: readonly Pool[]): readonly string[] {
  const cpu = pools.some(({ takesCpu }) => takesCpu) ? ["CPU"] : [];
  return [...new Set([...cpu, ...pools.flatMap(({ gpus }) => gpus.map(({ compute }) => compute))])];
}

/** The GPUs of a type in a pool, usable or not. */
export function gpusOf(pool: Pool, compute: string): Pool["gpus"] {
  return pool.gpus.filter((gpu) => gpu.compute === compute);
}

/** What remains after another claim. */
export function without(free: readonly FreePool[], claim: PoolClaim): FreePool[] {
  return free.map((one) => {
    if (one.pool.name !== claim.pool) return one;
    const { cores, memory } = shareInPool(one.pool, claim);
    const gpus = one.gpus.filter((id) => !claim.gpus.includes(id));
    return { pool: one.pool, cores: one.cores - cores, memory: one.memory - memory, gpus };
  });
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
function waste({ pool, gpus }: FreePool, { compute, tier }: PoolRequest): number {
  const tierWaste = tier !== "protected" && pool.tier === "protected" ? 1 : 0;
  const ofType = gpusOf(pool, compute).filter(({ id }) => gpus.includes(id)).length;
  return tierWaste * 1_000_000 + (compute === "CPU" ? pool.gpus.length : ofType);
}

function shutFor(
  wish: PoolWish,
  free: readonly FreePool[],
  shut: Map<string, Set<Dimension>>,
): void {
  for (const request of wish) {
    for (const one of free.filter(({ pool }) => couldFit(pool, request))) {
      const closed = shut.getOrInsertComputed(one.pool.name, () => new Set());
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
    ...(freeGpus(one, request.compute).length < request.gpuCount ? [request.compute] : []),
  ];
}

function uses({ compute, gpuCount }: PoolRequest): Dimension[] {
  return ["cores", "memory", ...(gpuCount > 0 ? [compute] : [])];
}

function claimOf(
  one: FreePool,
  { provider: _provider, region: _region, gpuCount, ...rest }: PoolRequest,
): PoolClaim {
  return { ...rest, pool: one.pool.name, gpus: freeGpus(one, rest.compute).slice(0, gpuCount) };
}

/** The ids of the GPUs of a type that are free. */
export function freeGpus({ pool, gpus }: FreePool, compute: string): string[] {
  return gpusOf(pool, compute).flatMap(({ id }) => (gpus.includes(id) ? [id] : []));
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
