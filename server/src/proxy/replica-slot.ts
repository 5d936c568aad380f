// One replica as the proxy sees it: how many calls it works on, and the connections to it.
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import { Timed } from "./deadlines.ts";
import type { ReplicaPool } from "./replica-pool.ts";

/** Lives from the moment the replica is ready until it is gone from the view and its last call has ended. */
export class ReplicaSlot extends Timed {
  readonly replica: ReadyReplica;
  readonly pool: ReplicaPool;
  running = 0;
  /** The view has it. */
  isListed = true;
  /** It gets no further calls, whatever the view says. */
  isRetired = false;
  /** Nothing could connect to it a moment ago: no call is sent to it until it is tried again. */
  isUnreachable = false;
  readonly #onAgain: () => void;

  constructor(replica: ReadyReplica, pool: ReplicaPool, onAgain: () => void) {
    super();
    this.replica = replica;
    this.pool = pool;
    this.#onAgain = onAgain;
  }

  override onDeadline(): void {
    this.isUnreachable = false;
    this.#onAgain();
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
