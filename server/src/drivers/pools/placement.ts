// What the replicas of this platform have of its pools. One object, shared by the driver, which
// keeps it equal to what runs, and the scheduler, which asks it before it starts anything. Nothing
// is counted: what is free follows from the claims.
import type { ReplicaId } from "#lib/ids.ts";
import {
  choosePool,
  computeOf,
  couldFit,
  freeOf,
  type FreePool,
  type PoolWish,
} from "./choose-pool.ts";
import type { PoolClaim, GpuUse, Pool, PoolRequest } from "./pool.ts";

/**
 * A driver calls `keep` for each replica that it adopts, `hold` when it starts one, and `release`
 * when one has exited, was refused or is unknown when it is to be stopped.
 */
export class Placement {
  readonly #claims = new Map<ReplicaId, PoolClaim>();
  readonly #listeners = new Set<() => void>();
  #pools: readonly Pool[];
  #gpuUse: ReadonlyMap<string, GpuUse> = new Map();
  /** Null: to be derived again. */
  #free: readonly FreePool[] | null = null;

  constructor(pools: readonly Pool[]) {
    this.#pools = pools;
  }

  /** All pools, whatever is free. */
  get pools(): readonly Pool[] {
    return this.#pools;
  }

  /** What is free in each pool. */
  get free(): readonly FreePool[] {
    return (this.#free ??= freeOf(this.#pools, this.#claims.values()));
  }

  /** Who has what. */
  get claims(): ReadonlyMap<ReplicaId, PoolClaim> {
    return this.#claims;
  }

  /** The compute types that replicas can have. */
  get compute(): readonly string[] {
    return computeOf(this.#pools);
  }

  /** Answers `Driver.capacity`. `ahead`: see `choosePool`. */
  capacity(request: PoolRequest, ahead: readonly PoolWish[] = []): "now" | "later" | "never" {
    if (choosePool(this.free, [request], ahead) !== null) return "now";
    return this.#pools.some((pool) => couldFit(pool, request)) ? "later" : "never";
  }

  /** The replica's claim: the one that it has, or a new one. Null: nothing is free for it. */
  hold(
    replicaId: ReplicaId,
    request: PoolRequest,
    ahead: readonly PoolWish[] = [],
  ): PoolClaim | null {
    const held = this.#claims.get(replicaId);
    if (held !== undefined) return held;
    const claim = choosePool(this.free, [request], ahead);
    if (claim !== null) this.keep(replicaId, claim);
    return claim;
  }

  /**
   * Records the claim of a replica that exists. Undefined: it was started by a version without
   * pools, and counts for nothing.
   */
  keep(replicaId: ReplicaId, claim: PoolClaim | undefined): void {
    if (claim === undefined) return;
    this.#claims.set(replicaId, claim);
    this.#free = null;
  }

  /** Gives back what the replica has. */
  release(replicaId: ReplicaId): void {
    if (!this.#claims.delete(replicaId)) return;
    this.#changed();
  }

  /** Replaces the pools, when a GPU was found or lost. Claims stay. */
  setPools(pools: readonly Pool[]): void {
    this.#pools = pools;
    this.#changed();
  }

  /** What was measured last, by the ids of GPUs. */
  setGpuUse(gpuUse: ReadonlyMap<string, GpuUse>): void {
    this.#gpuUse = gpuUse;
  }

  /** `usage` of replicas, completed by that of their GPUs. */
  withGpuUse<Usage>(
    usage: ReadonlyMap<ReplicaId, Usage>,
  ): ReadonlyMap<ReplicaId, Usage & { readonly gpu: GpuUse | undefined }> {
    return new Map(Array.from(usage, ([id, used]) => [id, { ...used, gpu: this.#gpuUseOf(id) }]));
  }

  /** Undefined when it has none, or none was measured. */
  #gpuUseOf(replicaId: ReplicaId): GpuUse | undefined {
    const measured = (this.#claims.get(replicaId)?.gpus ?? []).flatMap(
      (id) => this.#gpuUse.get(id) ?? [],
    );
    if (measured.length === 0) return undefined;
    return {
      utilization: measured.reduce((sum, one) => sum + one.utilization, 0) / measured.length,
      memoryBytes: measured.reduce((sum, one) => sum + one.memoryBytes, 0),
    };
  }

  /** Calls `listener` when more may be free than before. Returns a function that removes it. */
  onFree(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed(): void {
    this.#free = null;
    for (const listener of this.#listeners) listener();
  }
}
