// Removes a replica that is gone, whoever has noticed it: takes it out of the fleet, stores its
// end, waits for its last lines, and has the driver remove its files. Removes each replica once.
import type { Driver } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Counters } from "./counters.ts";
import { heartbeatIntervalMs } from "./heartbeat.ts";
import type { Fleet, Replica, ReplicaEnd, ReplicaRelease } from "./replica.ts";
import type { RowWriter } from "./row-writer.ts";

/** The app to which the lines of a replica belong. */
type LineOwner = Pick<ReplicaRelease, "projectId" | "appId">;

/** Callbacks about a replica that is gone. Each must return at once. */
export type RemovalEvents = {
  /** Called first; returns the end as it is to be shown to the app's owner. */
  readonly onGone: (replica: Replica, end: ReplicaEnd) => ReplicaEnd;
  /** `stateBefore` is the state before the end. Lines may follow until `onForgotten`. */
  readonly onEnd: (replica: Replica, end: ReplicaEnd, stateBefore: Replica["state"]) => void;
  /** Called when the replica's end and all its lines are stored. */
  readonly onForgotten: (replica: Replica, end: ReplicaEnd) => void;
};

type RemovalParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Pick<Driver, "forget">;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly counters: Counters;
  readonly events: RemovalEvents;
};

/** Removes replicas that are gone. */
export class ReplicaRemoval {
  readonly #parts: RemovalParts;
  /** The owners of the lines that removed replicas may still deliver. */
  readonly #lineOwners = new Map<ReplicaId, LineOwner>();
  #isStopped = false;

  constructor(parts: RemovalParts) {
    this.#parts = parts;
  }

  /** Removes a replica that is gone, unless it was removed before or the platform stops. */
  remove(replica: Replica, knownEnd: ReplicaEnd): void {
    if (replica.state === "stopped" || this.#isStopped) return;
    const { counters, fleet, events, writer } = this.#parts;
    const stateBefore = replica.state;
    const shown = events.onGone(replica, knownEnd);
    const end = stateBefore === "starting" ? withHint(shown, replica.hint) : shown;
    const reason = replica.endOrder?.reason ?? end.reason;
    replica.move("stopped");
    fleet.remove(replica);
    this.#lineOwners.set(replica.replicaId, replica.release);
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
      .then(() => {
        if (!this.#isStopped) events.onForgotten(replica, end);
      });
    events.onEnd(replica, end, stateBefore);
  }

  /**
   * Has the driver deliver the last lines of a replica whose end is stored, and then remove its
   * files. The lines belong to `owner`.
   */
  async forget(replicaId: ReplicaId, owner: LineOwner | undefined): Promise<void> {
    if (owner !== undefined) this.#lineOwners.set(replicaId, owner);
    try {
      await this.#parts.driver.forget(replicaId);
    } catch (error) {
      // At its next start the platform finds the replica in the driver's list, and tries again.
      this.#parts.log.warn({ err: error, replicaId }, "the driver could not forget a replica");
    } finally {
      this.#lineOwners.delete(replicaId);
    }
  }

  /** The owner of a replica's lines; undefined: the database does not know the replica. */
  ownerOf(replicaId: ReplicaId): LineOwner | undefined {
    return this.#parts.fleet.get(replicaId)?.release ?? this.#lineOwners.get(replicaId);
  }

  /** Removes no replica from now on: the platform stops, and replicas keep running. */
  stop(): void {
    this.#isStopped = true;
  }

  /**
   * The time of the replica's end. Corrects `at`, since it comes from a clock that may have jumped.
   * If `at` is more than a heartbeat's interval before the replica was last seen running, it is
   * replaced by that time; if it is in the future, by now.
   */
  #timeOf(replica: Replica, at: number): number {
    const now = replica.timeAt(this.#parts.clock.monotonicMs());
    if (at < replica.seenAtMs - heartbeatIntervalMs) return replica.seenAtMs;
    return Math.min(at, now);
  }
}

/** Adds the driver's hint, which probably explains why the app did not become ready. */
function withHint(end: ReplicaEnd, hint: string | null): ReplicaEnd {
  if (hint === null) return end;
  const sentence = /[.!?]$/.test(end.reason) ? end.reason : `${end.reason}.`;
  return { ...end, reason: `${sentence} ${hint}` };
}
