// One replica as seen by the proxy: its running calls and its connections.
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import { Timed } from "./deadlines.ts";
import type { ReleaseTally } from "./release-tally.ts";
import type { ReplicaPool } from "./replica-pool.ts";

/**
 * The calls and connections of one replica, from the time it is ready until the view drops it and
 * its last call has ended.
 */
export class ReplicaSlot extends Timed {
  readonly replica: ReadyReplica;
  readonly pool: ReplicaPool;
  /** The counters of its release. */
  readonly tally: ReleaseTally;
  /** The number of calls that the replica works on. */
  running = 0;
  /** The view lists the replica. */
  isListed = true;
  /** The replica gets no further calls, whatever the view lists. */
  isRetired = false;
  /**
   * The replica could not be reached, has refused a call, or may be about to end: it gets no calls
   * until the deadline.
   */
  isUnreachable = false;
  /** Called when the replica may get calls again. */
  readonly #onAgain: () => void;

  constructor(
    options: Pick<ReplicaSlot, "replica" | "pool" | "tally"> & { readonly onAgain: () => void },
  ) {
    super();
    this.replica = options.replica;
    this.pool = options.pool;
    this.tally = options.tally;
    this.#onAgain = options.onAgain;
  }

  override onDeadline(): void {
    this.isUnreachable = false;
    this.#onAgain();
  }

  /** The maximum number of concurrent calls. */
  get concurrency(): number {
    return this.replica.concurrency;
  }

  /** True if the replica may get calls. */
  get isOpen(): boolean {
    return this.isListed && !this.isRetired;
  }
}
