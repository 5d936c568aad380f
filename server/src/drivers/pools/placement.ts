// Holds the claims of a machine's replicas in its pools, down to the single GPU. Driver and
// scheduler share one object: the driver keeps the claims equal to what runs, and the scheduler
// asks before it starts anything. The free resources are not stored: they are computed from the
// claims.
import type { ReplicaId } from "#lib/ids.ts";
import { countCards, freeCards, type CardClaim, type CardPool } from "./cards.ts";
import { choosePool, couldFit, freeOf, type FreePool, type PoolWish } from "./choose-pool.ts";
import type { GpuUse, Pool, PoolClaim, PoolRequest } from "./pool.ts";
import type { Capacity, Pools } from "./pools.ts";

/**
 * A driver calls `keep` for each replica that it adopts, and `hold` when it starts one. It calls
 * `release` when a replica has exited, when its start was refused, and when it is to be stopped but
 * the driver does not know it.
 */
export class Placement implements Pools {
  readonly #held = new Map<ReplicaId, CardClaim>();
  readonly #listeners = new Set<() => void>();
  #pools: readonly CardPool[];
  #gpuUse: ReadonlyMap<string, GpuUse> = new Map();
  /** Null: must be derived again. */
  #derived: Derived | null = null;

  constructor(pools: readonly CardPool[]) {
    this.#pools = pools;
  }

  /** All pools, with their cards. */
  get pools(): readonly CardPool[] {
    return this.#pools;
  }

  /** The claims by replica, with their cards. */
  get held(): ReadonlyMap<ReplicaId, CardClaim> {
    return this.#held;
  }

  get all(): readonly Pool[] {
    return this.#now().all;
  }

  get free(): readonly FreePool[] {
    return this.#now().free;
  }

  get claims(): ReadonlyMap<ReplicaId, PoolClaim> {
    return this.#now().claims;
  }

  capacity(request: PoolRequest, ahead: readonly PoolWish[]): Capacity {
    if (choosePool(this.free, [request], ahead) !== null) return "now";
    return this.all.some((pool) => couldFit(pool, request)) ? "later" : "never";
  }

  reserve(
    replicaId: ReplicaId,
    request: PoolRequest,
    ahead: readonly PoolWish[],
  ): PoolClaim | null {
    const held = this.hold(replicaId, request, ahead);
    return held === null ? null : (this.claims.get(replicaId) ?? null);
  }

  /** The replica's claim: the one that it has, or a new one. Null: nothing is free for it. */
  hold(
    replicaId: ReplicaId,
    request: PoolRequest,
    ahead: readonly PoolWish[] = [],
  ): CardClaim | null {
    const held = this.#held.get(replicaId);
    if (held !== undefined) return held;
    const chosen = choosePool(this.free, [request], ahead);
    if (chosen === null) return null;
    const { pool, compute, cpuCores, memoryGb, tier, gpuCount } = chosen;
    const gpus = this.#freeCardsOf(pool, compute).slice(0, gpuCount);
    const claim: CardClaim = { pool, compute, cpuCores, memoryGb, tier, gpus };
    this.keep(replicaId, claim);
    return claim;
  }

  /**
   * Records the claim of a replica that exists. Undefined: it was started by a version without
   * pools, and counts for nothing.
   */
  keep(replicaId: ReplicaId, claim: CardClaim | undefined): void {
    if (claim === undefined) return;
    this.#held.set(replicaId, claim);
    this.#derived = null;
  }

  /** Ends the claim of the replica. */
  release(replicaId: ReplicaId): void {
    if (!this.#held.delete(replicaId)) return;
    this.#changed();
  }

  /** Replaces the pools, when a GPU was found or lost. Claims stay. */
  setPools(pools: readonly CardPool[]): void {
    this.#pools = pools;
    this.#changed();
  }

  /** Stores the latest measured use, by the ids of GPUs. */
  setGpuUse(gpuUse: ReadonlyMap<string, GpuUse>): void {
    this.#gpuUse = gpuUse;
  }

  /** The usage of replicas, with the use of their GPUs added. */
  withGpuUse<Usage>(
    usage: ReadonlyMap<ReplicaId, Usage>,
  ): ReadonlyMap<ReplicaId, Usage & { readonly gpu: GpuUse | undefined }> {
    return new Map(Array.from(usage, ([id, used]) => [id, { ...used, gpu: this.#gpuUseOf(id) }]));
  }

  /** Undefined when the replica has no GPU, or none was measured. */
  #gpuUseOf(replicaId: ReplicaId): GpuUse | undefined {
    const cards = this.#held.get(replicaId)?.gpus ?? [];
    const measured = cards.flatMap((id) => this.#gpuUse.get(id) ?? []);
    if (measured.length === 0) return undefined;
    return {
      utilization: measured.reduce((sum, use) => sum + use.utilization, 0) / measured.length,
      memoryBytes: measured.reduce((sum, use) => sum + use.memoryBytes, 0),
    };
  }

  onFree(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed(): void {
    this.#derived = null;
    for (const listener of this.#listeners) listener();
  }

  #now(): Derived {
    this.#derived ??= derive(this.#pools, this.#held);
    return this.#derived;
  }

  #freeCardsOf(name: string, compute: string): string[] {
    const pool = this.#pools.find((candidate) => candidate.name === name);
    if (pool === undefined) return [];
    const free = freeCards(pool, takenBy(this.#held.values()));
    return free.filter((card) => card.compute === compute).map((card) => card.id);
  }
}

/** The view of pools and claims that others get, without single cards. */
type Derived = Pick<Pools, "all" | "free" | "claims">;

/** Computes the view. A card that any claim names is not free, whichever pool it is in now. */
function derive(pools: readonly CardPool[], held: ReadonlyMap<ReplicaId, CardClaim>): Derived {
  const all = pools.map(countCards);
  const taken = takenBy(held.values());
  const usable = new Map(
    pools.map(({ name, gpus }) => [
      name,
      new Set(gpus.filter(({ isUsable }) => isUsable).map(({ id }) => id)),
    ]),
  );
  const claims = new Map<ReplicaId, PoolClaim>();
  for (const [replicaId, { gpus, ...claim }] of held) {
    // As in the pool's `usable`, only cards that answer count.
    const gpuCount = gpus.filter((id) => usable.get(claim.pool)?.has(id)).length;
    claims.set(replicaId, { ...claim, gpuCount });
  }
  // `freeOf` keeps the order of the pools, so that each can be found by its index.
  const free = freeOf(all, claims.values()).map((freePool, index) => {
    const pool = pools[index];
    const cards = pool === undefined ? [] : freeCards(pool, taken);
    const gpus = new Map(freePool.pool.gpus.map(({ compute }) => [compute, 0]));
    for (const { compute } of cards) gpus.set(compute, (gpus.get(compute) ?? 0) + 1);
    return { ...freePool, gpus };
  });
  return { all, free, claims };
}

function takenBy(claims: Iterable<CardClaim>): ReadonlySet<string> {
  const taken = new Set<string>();
  for (const { gpus } of claims) {
    for (const id of gpus) taken.add(id);
  }
  return taken;
}
