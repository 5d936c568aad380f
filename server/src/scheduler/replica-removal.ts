// What follows when a replica is gone, whoever noticed it: it leaves the fleet, its end is stored,
// its last lines are awaited, and the driver removes what is left of it. Each replica is removed
// once.
import type { Driver } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Counters } from "./counters.ts";
import { heartbeatIntervalMs } from "./heartbeat.ts";
import type { Fleet, Replica, ReplicaEnd, ReplicaRelease } from "./replica.ts";
import type { RowWriter } from "./row-writer.ts";

/** Whose lines a replica prints. */
type LineOwner = Pick<ReplicaRelease, "projectId" | "appId">;

type RemovalParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Pick<Driver, "forget">;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly counters: Counters;
  /** Callbacks about a replica that is gone. Each must return at once. */
  readonly events: {
    /** Comes first. Returns its end as it is to be shown. */
    readonly onGone: (replica: Replica, end: ReplicaEnd) => ReplicaEnd;
    /**
     * `stateBefore` is its last state before the end. Lines of it may follow until `onForgotten`.
     */
    readonly onEnd: (replica: Replica, end: ReplicaEnd, stateBefore: Replica["state"]) => void;
    /** The replica's end and all its lines are stored. */
    readonly onForgotten: (replica: Replica, end: ReplicaEnd) => void;
  };
};

/** Removes replicas that are gone. */
export class ReplicaRemoval {
  readonly #parts: RemovalParts;
  /** Removed replicas whose lines may still come. */
  readonly #leaving = new Map<ReplicaId, LineOwner>();
  #isStopped = false;

  constructor(parts: RemovalParts) {
    this.#parts = parts;
  }

  /** Removes a replica that is gone, unless that has been done or the platform stops. */
  remove(replica: Replica, how: ReplicaEnd): void {
    if (replica.state === "stopped" || this.#isStopped) return;
    const { counters, fleet, events, writer } = this.#parts;
    const stateBefore = replica.state;
    const shown = events.onGone(replica, how);
    const end = stateBefore === "starting" ? withHint(shown, replica.hint) : shown;
    const reason = replica.endOrder?.reason ?? end.reason;
    replica.move("stopped");
    fleet.remove(replica);
    this.#leaving.set(replica.replicaId, replica.release);
    replica.abort.abort(new Error(reason));
    counters.ends++;
    void writer
      .change(replica.replicaId, {
        kind: "stopped",
        at: this.#timeOf(replica, end.at),
        reason,
        exitCode: end.exitCode,
      })
      .then(() => this.forget(replica.replicaId, replica.release))
      .then(() => this.#isStopped || events.onForgotten(replica, end));
    events.onEnd(replica, end, stateBefore);
  }

  /**
   * Lets the driver deliver the last lines, for `owner`, of a replica whose end is stored, and
   * remove what is left of it.
   */
  async forget(replicaId: ReplicaId, owner: LineOwner | undefined): Promise<void> {
    if (owner !== undefined) this.#leaving.set(replicaId, owner);
    try {
      await this.#parts.driver.forget(replicaId);
    } catch (error) {
      // The next start of the platform finds it in the driver's list and retries.
      this.#parts.log.warn({ err: error, replicaId }, "the driver could not forget a replica");
    } finally {
      this.#leaving.delete(replicaId);
    }
  }

  /** Whose a line of the replica is; undefined: nobody's, so far as this database knows. */
  ownerOf(replicaId: ReplicaId): LineOwner | undefined {
    return this.#parts.fleet.get(replicaId)?.release ?? this.#leaving.get(replicaId);
  }

  /** Removes no replica from now on: the platform stops, and replicas keep running. */
  stop(): void {
    this.#isStopped = true;
  }

  /**
   * The time of its end, between when it was last seen running and now; `at` comes from a clock
   * that may have stepped. It may have ended shortly before it was last seen, since detection takes
   * a moment.
   */
  #timeOf(replica: Replica, at: number): number {
    const nowMs = replica.timeAt(this.#parts.clock.monotonicMs());
    return at < replica.seenAtMs - heartbeatIntervalMs ? replica.seenAtMs : Math.min(at, nowMs);
  }
}

/** What the driver noticed at the start probably explains why the app did not become ready. */
function withHint(end: ReplicaEnd, hint: string | null): ReplicaEnd {
  if (hint === null) return end;
  const sentence = /[.!?]$/.test(end.reason) ? end.reason : `${end.reason}.`;
  return { ...end, reason: `${sentence} ${hint}` };
}
