// What a driver knows of the machines behind it: which pools there are, what is free of them, and
// what its replicas have. The scheduler asks it before it starts anything.
import type { ReplicaId } from "#lib/ids.ts";
import type { FreePool, PoolWish } from "./choose-pool.ts";
import type { Pool, PoolClaim, PoolRequest } from "./pool.ts";

/** When a replica would fit: now, later when others exit, or never. */
export type Capacity = "now" | "later" | "never";

/** Uses only what the driver already knows: callers ask often, so each answer is there at once. */
export interface Pools {
  /** All pools, whatever is free. */
  readonly all: readonly Pool[];
  /** What is free in each pool, in the same order. */
  readonly free: readonly FreePool[];
  /** What each replica has, from when it is reserved until the replica is gone. */
  readonly claims: ReadonlyMap<ReplicaId, PoolClaim>;
  /** `ahead`: what comes first, even if it waits. */
  capacity(request: PoolRequest, ahead?: readonly PoolWish[]): Capacity;
  /**
   * Keeps for a replica what it is about to be started with, so that nobody else gets it meanwhile;
   * changes nothing for one that has a claim. The driver gives it back when the replica has exited,
   * when its start is refused, and when it is stopped without having been started. Null: nothing is
   * free for it.
   */
  reserve(
    replicaId: ReplicaId,
    request: PoolRequest,
    ahead?: readonly PoolWish[],
  ): PoolClaim | null;
  /** Calls `listener` when more may be free than before. Returns a function that removes it. */
  onFree(listener: () => void): () => void;
}
