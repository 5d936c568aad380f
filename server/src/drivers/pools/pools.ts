// The interface to a driver's pools: their resources, how much of them is free, and what each
// replica has. The scheduler asks the pools before it starts anything.
import type { ReplicaId } from "#lib/ids.ts";
import type { FreePool, PoolWish } from "./choose-pool.ts";
import type { Pool, PoolClaim, PoolRequest } from "./pool.ts";

/** When a replica would fit: now, later when others exit, or never. */
export type Capacity = "now" | "later" | "never";

/** Answers at once, from what the driver already knows, since callers ask often. */
export interface Pools {
  /** All pools, whatever is free. */
  readonly all: readonly Pool[];
  /** The free resources of each pool, in the same order. */
  readonly free: readonly FreePool[];
  /** What each replica has, from when it is reserved until the replica is gone. */
  readonly claims: ReadonlyMap<ReplicaId, PoolClaim>;
  /** When the request would fit. `ahead`: the replicas that come first, even if they wait. */
  capacity(request: PoolRequest, ahead: readonly PoolWish[]): Capacity;
  /**
   * Makes the claim of a replica that is about to be started, so that no other replica gets the
   * same resources meanwhile; a claim that the replica has already stays. The driver ends the claim
   * when the replica has exited, when its start is refused, and when it is stopped before its
   * start. Null: too little is free.
   */
  reserve(replicaId: ReplicaId, request: PoolRequest, ahead: readonly PoolWish[]): PoolClaim | null;
  /** Calls `listener` when more may be free than before. Returns a function that removes it. */
  onFree(listener: () => void): () => void;
}
