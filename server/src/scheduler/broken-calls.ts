// Connects calls that broke off with the end of their replica: the run of such a call has the reason of the end, and the
// replica's last lines belong to it. A connection breaks before or after the end of its replica is known, so each waits a
// moment for the other.
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import { withDeadline } from "#lib/with-deadline.ts";

type Broken = { readonly runs: Set<RunId>; readonly end: PromiseWithResolvers<string>; isTold: boolean };

/** An exit is known within milliseconds; on a busy machine, or for another process's replica, within a second. */
const endWaitMs = 2_000;
const replicasMax = 1_000;
/** Per replica; the last lines of a crash are not copied for more. */
const runsMax = 1_000;

/** One per scheduler. */
export class BrokenCalls {
  readonly #replicas = new LruMap<ReplicaId, Broken>(replicasMax);
  readonly #clock: Clock;
  /** Called for runs whose calls turned out to be broken after `taken`. */
  readonly #onLate: (replicaId: ReplicaId, runId: RunId) => void;

  constructor(options: { clock: Clock; onLate: (replicaId: ReplicaId, runId: RunId) => void }) {
    this.#clock = options.clock;
    this.#onLate = options.onLate;
  }

  /** A call broke off on the replica. The reason of the replica's end; null when it does not end within a moment. */
  async reasonFor(replicaId: ReplicaId, runId: RunId): Promise<string | null> {
    const { runs, end } = this.#of(replicaId);
    if (runs.size < runsMax) runs.add(runId);
    const reason = await withDeadline(this.#clock, endWaitMs, end.promise).catch(() => null);
    if (reason === null) runs.delete(runId);
    else if (this.#of(replicaId).isTold && runs.delete(runId)) this.#onLate(replicaId, runId);
    return reason;
  }

  /** The replica has ended. */
  ended(replicaId: ReplicaId, reason: string): void {
    this.#of(replicaId).end.resolve(reason);
  }

  /** True when `taken` would return runs. */
  hasRuns(replicaId: ReplicaId): boolean {
    return this.#of(replicaId).runs.size > 0;
  }

  /** The runs whose calls broke off with the replica so far; later ones go to `onLate`. */
  taken(replicaId: ReplicaId): readonly RunId[] {
    const broken = this.#of(replicaId);
    broken.isTold = true;
    const runs = [...broken.runs];
    broken.runs.clear();
    return runs;
  }

  #of(replicaId: ReplicaId): Broken {
    const known = this.#replicas.get(replicaId);
    if (known !== undefined) return known;
    const made = { runs: new Set<RunId>(), end: Promise.withResolvers<string>(), isTold: false };
    this.#replicas.set(replicaId, made);
    return made;
  }
}
