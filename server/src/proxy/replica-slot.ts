// One replica as the proxy sees it: how many calls it works on, and the connections to it.
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import type { ReplicaPool } from "./replica-pool.ts";

/** Lives from the moment the replica is ready until it is gone from the view and its last call has ended. */
export class ReplicaSlot {
  readonly replica: ReadyReplica;
  readonly pool: ReplicaPool;
  running = 0;
  /** The view has it. */
  isListed = true;
  /** It gets no further calls, whatever the view says. */
  isRetired = false;

  constructor(replica: ReadyReplica, pool: ReplicaPool) {
    this.replica = replica;
    this.pool = pool;
  }

  /** The most calls at once. */
  get concurrency(): number {
    return this.replica.concurrency;
  }

  /** It may get calls. */
  get isOpen(): boolean {
    return this.isListed && !this.isRetired;
  }
}
