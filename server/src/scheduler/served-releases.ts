// Answers a turn's questions about the releases of an app that take calls: which replicas serve,
// how the calls are divided between the releases, and which failed starts still count. Pure.
import type { CallCounts, ReleaseCondition } from "#deploy/worse.ts";
import type { ReleaseId } from "#lib/ids.ts";
import type { ServedRelease } from "./app-state.ts";
import type { Replica } from "./replica.ts";
import type { AppReplicas, StartFailure } from "./replica-view.ts";
import { isOver, startsAllowed, type StartRecord } from "./start-record.ts";

/** How well the replicas of a release serve: its condition without the counts of its calls. */
export type ReleaseService = Omit<ReleaseCondition, keyof CallCounts>;

/**
 * Maximum number of an app's starts that the driver has not answered; the rest of a burst follows
 * as answers arrive.
 */
const creatingMax = 16;

/** True when the replica belongs to the release. */
export function isOf(replica: Replica, { releaseId }: Pick<ServedRelease, "releaseId">): boolean {
  return replica.release.releaseId === releaseId;
}

/** True when the replica takes calls. */
export function isServing(replica: Replica): boolean {
  return replica.state === "ready" && replica.isRouted && replica.ready !== null;
}

/** True until the replica is ready or ends. */
export function isStarting({ state }: Replica): boolean {
  return state === "starting";
}

/** The record of failed starts, unless it is outdated or of another release than `releaseId`. */
export function currentStarts(
  record: StartRecord | undefined,
  releaseId: ReleaseId | undefined,
  serving: readonly Replica[],
  nowMs: number,
): StartRecord | undefined {
  if (record === undefined || releaseId === undefined) return undefined;
  // When each serving replica of the release became ready.
  const readyAtMs = serving
    .filter((replica) => isOf(replica, { releaseId }))
    .flatMap((replica) => replica.readyAtMs ?? []);
  return isOver(record, { liveReleaseId: releaseId, readyAtMs, nowMs }) ? undefined : record;
}

/**
 * The view of the app for the proxy: the replicas that take calls, oldest first, or why there are
 * none and waiting is useless.
 */
export function viewOf(facts: {
  /** All replicas of the app. */
  readonly replicas: readonly Replica[];
  /** The share of the calls that each served release gets. */
  readonly weights: ReadonlyMap<ReleaseId, number>;
  /** Replicas of other releases that serve until their successors serve. */
  readonly leaving: readonly Replica[];
  /** The share of the calls that the leaving replicas get together. */
  readonly weightLeft: number;
  readonly failure: StartFailure | undefined;
}): AppReplicas {
  const leaving = facts.leaving.filter(isServing);
  const ofServed = facts.replicas.filter(({ release }) => facts.weights.has(release.releaseId));
  const serving = [...leaving, ...ofServed.filter(isServing)].toSorted(
    (first, second) => first.beganAtMs - second.beganAtMs,
  );
  const weights = new Map<ReleaseId, number>();
  for (const { release } of serving) {
    const { releaseId } = release;
    const servedWeight = facts.weights.get(releaseId);
    const weightSoFar = weights.get(releaseId) ?? 0;
    // Each leaving replica adds its part to the share of its release.
    weights.set(releaseId, servedWeight ?? weightSoFar + facts.weightLeft / leaving.length);
  }
  const shares = [...weights].map(([releaseId, weight]) => ({ releaseId, weight }));
  const isWorthWaiting =
    leaving.length > 0 ||
    ofServed.some((replica) => isStarting(replica) || replica.state === "ready");
  return {
    ready: serving.flatMap(({ ready }) => ready ?? []),
    failure: isWorthWaiting ? undefined : facts.failure,
    // One release gets all calls.
    shares: shares.length < 2 ? undefined : shares,
  };
}

/**
 * How many starts may be added now, considering failures and starts that the driver has not
 * answered.
 */
export function startsMax(
  starts: StartRecord | undefined,
  replicas: readonly Replica[],
  nowMs: number,
): number {
  const starting = replicas.filter((replica) => replica.state === "starting");
  const creating = starting.filter((replica) => replica.isCreating).length;
  return startsAllowed(starts, {
    nowMs,
    starting: starting.length,
    max: Math.max(0, creatingMax - creating),
  });
}
