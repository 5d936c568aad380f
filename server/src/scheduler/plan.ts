// What to do about the replicas of one app, given how many there should be: pure. Promises: the live release never gets
// more than `desired` replicas that start or serve; a replica that still starts is never a victim of scaling down;
// replicas of other releases are ended, since no call reaches them any more. Replicas being drained do not count: they
// end by themselves, and a call that arrives meanwhile must not wait for that.
import type { ReplicaId } from "#lib/ids.ts";

/** One replica that is starting or ready. Times in `Clock.monotonicMs`. */
export type PlannedReplica = {
  readonly replicaId: ReplicaId;
  readonly state: "starting" | "ready";
  /** It is of the live release. */
  readonly isLive: boolean;
  /** It belongs to a trial, or waits for its promotion: not to be touched. */
  readonly isHeld: boolean;
  /** Calls are sent to it; false while its ready check fails. */
  readonly isRouted: boolean;
  /** Calls that it works on. */
  readonly running: number;
  /** Null while it starts. */
  readonly readyAtMs: number | null;
};

export type Plan = {
  /** How many replicas of the live release to start now. */
  readonly starts: number;
  /** Replicas to drain and stop, with the reason for people. */
  readonly drains: readonly { readonly replicaId: ReplicaId; readonly reason: string }[];
};

/** Plans one turn. `startsMost` bounds how many starts may be added now. */
export function plan(given: {
  readonly replicas: readonly PlannedReplica[];
  readonly desired: number;
  readonly startsMost: number;
  readonly cooldownMs: number;
  readonly nowMs: number;
}): Plan {
  const live = given.replicas.filter((replica) => replica.isLive);
  const missing = given.desired - live.length;
  const old = given.replicas.filter((replica) => !replica.isLive && !replica.isHeld);
  return {
    starts: Math.max(0, Math.min(missing, given.startsMost)),
    drains: [
      ...old.map((replica) => ({ replicaId: replica.replicaId, reason: "A newer release took its place." })),
      ...victims(live, given).map((replica) => ({
        replicaId: replica.replicaId,
        reason: "It was not needed any more.",
      })),
    ],
  };
}

/** Ready replicas beyond the desired number: those without calls first, then the youngest; none within a cooldown of its readiness. */
function victims(
  live: readonly PlannedReplica[],
  given: { readonly desired: number; readonly cooldownMs: number; readonly nowMs: number },
): readonly PlannedReplica[] {
  const ready = live.filter((replica) => replica.state === "ready");
  const excess = ready.length - given.desired;
  if (excess <= 0) return [];
  return ready
    .filter((replica) => replica.readyAtMs !== null && given.nowMs - replica.readyAtMs >= given.cooldownMs)
    .toSorted(
      (left, right) =>
        Number(left.isRouted) - Number(right.isRouted) ||
        left.running - right.running ||
        (right.readyAtMs ?? 0) - (left.readyAtMs ?? 0),
    )
    .slice(0, excess);
}
