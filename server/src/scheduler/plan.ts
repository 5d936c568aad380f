// Plans starts and drains for the replicas of one release, given the desired number. Pure. The
// release never gets more than `desired` starting or serving replicas, except for a few
// replacements during a restart. Scaling down never ends a starting replica; draining replicas do
// not count, since a call that arrives meanwhile must not wait for their end.
import type { ReplicaId } from "#lib/ids.ts";

/** One replica, starting or ready. Times are by `Clock.monotonicMs`. */
export type PlannedReplica = {
  readonly replicaId: ReplicaId;
  readonly state: "starting" | "ready";
  /** True when the app was restarted after this replica started, which then needs a replacement. */
  readonly isOutdated: boolean;
  /** True when the replica may receive calls; false while its ready check fails. */
  readonly isRouted: boolean;
  /** Number of calls that the replica is working on. */
  readonly running: number;
  /** Null while it is starting. */
  readonly readyAtMs: number | null;
};

export type ReplicaPlan = {
  /** Number of replicas to start now. */
  readonly starts: number;
  /** Replicas to drain and stop, with the reason to show. */
  readonly drains: readonly { readonly replicaId: ReplicaId; readonly reason: string }[];
};

/** Plans one turn. `startsMax` is the maximum number of new starts. */
export function plan(situation: {
  readonly replicas: readonly PlannedReplica[];
  readonly desired: number;
  readonly startsMax: number;
  readonly cooldownMs: number;
  readonly nowMs: number;
}): ReplicaPlan {
  const { replicas, desired, startsMax } = situation;
  const outdated = replicas.filter((replica) => replica.isOutdated);
  const current = replicas.filter((replica) => !replica.isOutdated);
  const replacedNow = replaced(outdated, current, desired);
  const missing = desired - replicas.length;
  // How many replicas beyond the desired number stay when `replacedNow` are drained.
  const excess = replicas.length - desired - replacedNow.length;
  const replacements = replacementsNow(outdated, current, { desired, excess });
  const wanted = Math.max(missing, replacements);
  return {
    starts: Math.max(0, Math.min(wanted, desired - current.length, startsMax)),
    drains: [
      ...drainsOf(replacedNow, restartedReason),
      ...drainsOf(unneeded(current, situation), "It was no longer needed."),
    ],
  };
}

/**
 * Plans a restart without capacity for an additional replica: one replica drains, and its
 * replacement takes its slot at once. Null: none is outdated, or a replacement is starting.
 */
export function planExchange(replicas: readonly PlannedReplica[]): ReplicaPlan | null {
  const isUnderWay = replicas.some(
    (replica) => !replica.isOutdated && replica.state === "starting",
  );
  const [first] = leastNeededFirst(replicas.filter((replica) => replica.isOutdated));
  if (isUnderWay || first === undefined) return null;
  return { starts: 1, drains: drainsOf([first], restartedReason) };
}

/** Drains leaving replicas, except `keep` of them, which serve until their successors do. */
export function planLeaving(
  replicas: readonly PlannedReplica[],
  keep: number,
): ReplicaPlan["drains"] {
  const ending = leastNeededFirst(replicas).slice(0, Math.max(0, replicas.length - keep));
  return drainsOf(ending, replacedReason);
}

/** Why a replica of a replaced release ends. */
export const replacedReason = "Another release took its place.";

const restartedReason = "The app was restarted, and another replica takes its place.";

function drainsOf(replicas: readonly PlannedReplica[], reason: string): ReplicaPlan["drains"] {
  return replicas.map(({ replicaId }) => ({ replicaId, reason }));
}

/**
 * How many replacements may start now in a restart, beside the replicas that they will replace: a
 * quarter of the desired number, but at least one, minus the larger of two numbers. One is the
 * number of replacements that are starting already; the other is `excess`, the number of replicas
 * beyond the desired one. `excess` also contains replacements that are ready but get no calls, so
 * that nothing was drained for them.
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

/** Outdated replicas that are unnecessary beside the current ready ones. */
function replaced(
  outdated: readonly PlannedReplica[],
  current: readonly PlannedReplica[],
  desired: number,
): readonly PlannedReplica[] {
  const ready = current.filter((replica) => replica.state === "ready" && replica.isRouted).length;
  const unnecessary = Math.max(0, ready + outdated.length - desired);
  return leastNeededFirst(outdated).slice(0, unnecessary);
}

/** First the replicas that get no calls, then those with the fewest calls. */
function leastNeededFirst(replicas: readonly PlannedReplica[]): readonly PlannedReplica[] {
  // 1 for a replica that gets calls, and 0 for any other.
  const isServing = ({ state, isRouted }: PlannedReplica): number =>
    Number(state === "ready" && isRouted);
  return replicas.toSorted(
    (left, right) => isServing(left) - isServing(right) || left.running - right.running,
  );
}

/**
 * Ready replicas beyond the desired number: first those whose ready check fails, then those with
 * the fewest calls, then the youngest. A replica that became ready less than a cooldown ago stays.
 */
function unneeded(
  current: readonly PlannedReplica[],
  limits: { readonly desired: number; readonly cooldownMs: number; readonly nowMs: number },
): readonly PlannedReplica[] {
  const ready = current.filter((replica) => replica.state === "ready");
  const excess = ready.length - limits.desired;
  if (excess <= 0) return [];
  const isSettled = ({ readyAtMs }: PlannedReplica): boolean =>
    readyAtMs !== null && limits.nowMs - readyAtMs >= limits.cooldownMs;
  return ready
    .filter(isSettled)
    .toSorted(
      (left, right) =>
        Number(left.isRouted) - Number(right.isRouted) ||
        left.running - right.running ||
        (right.readyAtMs ?? 0) - (left.readyAtMs ?? 0),
    )
    .slice(0, excess);
}
