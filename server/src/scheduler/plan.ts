// What to do about the replicas of one app, given how many there should be: pure. Promises: the live release never gets
// more than `desired` replicas that start or serve, but for a few that take the place of others in a restart; a replica that
// still starts is never a victim of scaling down; replicas of other releases are ended, since no call reaches them any more.
// Those being drained do not count: they end by themselves, and a call that arrives meanwhile must not wait for that.
import type { ReplicaId } from "#lib/ids.ts";

/** One replica that is starting or ready. Times in `Clock.monotonicMs`. */
export type PlannedReplica = {
  readonly replicaId: ReplicaId;
  readonly state: "starting" | "ready";
  /** It is of the live release. */
  readonly isLive: boolean;
  /** The app was restarted since it began: another one is to take its place. */
  readonly isOutdated: boolean;
  /** It belongs to a trial, or waits for its promotion: not to be touched. */
  readonly isHeld: boolean;
  /** It was started to prove its release. */
  readonly isTrial: boolean;
  /** Calls are sent to it; false while its ready check fails. */
  readonly isRouted: boolean;
  /** Calls that it works on. */
  readonly running: number;
  /** Null while it starts. */
  readonly readyAtMs: number | null;
};

export type ReplicaPlan = {
  /** How many replicas of the live release to start now. */
  readonly starts: number;
  /** Replicas to drain and stop, with the reason for people. */
  readonly drains: readonly { readonly replicaId: ReplicaId; readonly reason: string }[];
};

/** Plans one turn. `startsMax` bounds how many starts may be added now. */
export function plan(given: {
  readonly replicas: readonly PlannedReplica[];
  readonly desired: number;
  readonly startsMax: number;
  readonly cooldownMs: number;
  readonly nowMs: number;
}): ReplicaPlan {
  const { replicas, desired, startsMax } = given;
  const live = replicas.filter((replica) => replica.isLive);
  const outdated = live.filter((replica) => replica.isOutdated);
  const current = live.filter((replica) => !replica.isOutdated);
  const old = replicas.filter((replica) => !replica.isLive && !replica.isHeld);
  const replacedNow = replaced(outdated, current, desired);
  const missing = desired - live.length;
  const wanted = Math.max(
    missing,
    replacementsNow(outdated, current, { desired, excess: -missing - replacedNow.length }),
  );
  return {
    starts: Math.max(0, Math.min(wanted, desired - current.length, startsMax)),
    drains: [
      ...drainsOf(
        old.filter(({ isTrial }) => isTrial),
        "Its release was only tested and never received calls.",
      ),
      ...drainsOf(
        old.filter(({ isTrial }) => !isTrial),
        "A newer release took its place.",
      ),
      ...drainsOf(replacedNow, restarted),
      ...drainsOf(victims(current, given), "It was no longer needed."),
    ],
  };
}

/** Where a restart finds no room for a replica beside those that there are: the one whose place another one takes at once. */
export function planExchange(replicas: readonly PlannedReplica[]): ReplicaPlan | null {
  const live = replicas.filter((replica) => replica.isLive);
  const isUnderWay = live.some((replica) => !replica.isOutdated && replica.state === "starting");
  const [first] = leastNeededFirst(live.filter((replica) => replica.isOutdated));
  return isUnderWay || first === undefined ? null : { starts: 1, drains: drainsOf([first], restarted) };
}

const restarted = "The app was restarted, and another replica takes its place.";

function drainsOf(replicas: readonly PlannedReplica[], reason: string): ReplicaPlan["drains"] {
  return replicas.map(({ replicaId }) => ({ replicaId, reason }));
}

/**
 * How many replicas of a restart may start now beside those that they replace: a quarter at a time, and no more than a
 * quarter in `excess` of what is desired, since those that became ready may take no calls and then replace none.
 */
function replacementsNow(
  outdated: readonly PlannedReplica[],
  current: readonly PlannedReplica[],
  { desired, excess }: { readonly desired: number; readonly excess: number },
): number {
  if (outdated.length === 0) return 0;
  const starting = current.filter((replica) => replica.state === "starting").length;
  return Math.max(1, Math.floor(desired / 4)) - Math.max(starting, excess);
}

/** Outdated replicas that are not needed beside the current ones that are ready. */
function replaced(
  outdated: readonly PlannedReplica[],
  current: readonly PlannedReplica[],
  desired: number,
): readonly PlannedReplica[] {
  const ready = current.filter((replica) => replica.state === "ready" && replica.isRouted).length;
  return leastNeededFirst(outdated).slice(0, Math.max(0, ready + outdated.length - desired));
}

function leastNeededFirst(replicas: readonly PlannedReplica[]): readonly PlannedReplica[] {
  const isServing = ({ state, isRouted }: PlannedReplica): number => Number(state === "ready" && isRouted);
  return replicas.toSorted((left, right) => isServing(left) - isServing(right) || left.running - right.running);
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
