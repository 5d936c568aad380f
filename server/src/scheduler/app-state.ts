// The scheduler's state of one app between two turns, and the messages for people that follow from
// it. Pure.
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { LoadHistory } from "./decide.ts";
import type { ReplicaRelease } from "./replica.ts";
import type { StartRecord } from "./start-record.ts";

/** The part of the routing table that the scheduler needs; `apps/routes.ts` holds it in memory. */
export interface RouteSource {
  /** Undefined: the app does not exist. */
  byAppId(appId: AppId): SchedulerRoute | undefined;
  all(): Iterable<SchedulerRoute>;
  /** Calls `listener` after each change of an app's route. Returns a function that removes it. */
  onChange(listener: (appId: AppId) => void): () => void;
}

/** A release that takes calls. */
export type ServedRelease = Pick<ReplicaRelease, "releaseId" | "buildId" | "settings">;

/** An app and the releases that take its calls. */
export type SchedulerRoute = {
  readonly appId: AppId;
  readonly projectId: ReplicaRelease["projectId"];
  /** Null before the first release. */
  readonly live: ServedRelease | null;
  /** A roll-out: `release` should get `share` percent of the calls, and `live` the rest. */
  readonly rollOut: { readonly release: ServedRelease; readonly share: number } | null;
  /**
   * A release that was taken back because it was worse. It gets no calls, not even until another
   * release serves.
   */
  readonly refusedReleaseId: ReleaseId | null;
  /** How often a restart of its replicas was requested. */
  readonly restarts: number;
};

export type AppState = {
  readonly history: LoadHistory;
  /** Recent failed starts; undefined when starting works. */
  readonly starts: StartRecord | undefined;
  /** The failed starts of a release that is being rolled out. */
  readonly rollOutStarts: StartRecord | undefined;
  /** Why fewer replicas were started than needed; undefined: none was held back. */
  readonly heldBack: string | undefined;
};

/** The states of apps; an app without state has no entry. */
export type AppStates = Map<AppId, AppState>;

/**
 * Why an app's calls wait, or why it has fewer replicas than are wanted, in sentences for its
 * owner; undefined: neither is true.
 */
export function waitReason(state: {
  /** Why waiting is useless now; undefined: it may help. */
  readonly failureReason: string | undefined;
  /** As in `AppState`. */
  readonly starts: StartRecord | undefined;
  readonly heldBack: string | undefined;
  /** Replicas that start. */
  readonly starting: number;
  /** Starting replicas that wait for a machine. */
  readonly pending: number;
  /** Replicas that receive calls. */
  readonly ready: number;
  /** Replicas whose ready check fails. */
  readonly unrouted: number;
  /** Calls that wait for a replica. */
  readonly waiting: number;
  readonly replicasMax: number;
  readonly nowMs: number;
}): string | undefined {
  if (state.failureReason !== undefined) return state.failureReason;
  const moreWanted =
    state.heldBack === undefined ? undefined : `More replicas are wanted. ${state.heldBack}`;
  if (state.starting > 0) {
    const text = startingText(state);
    return moreWanted === undefined ? text : `${text} ${moreWanted}`;
  }
  const lacksReplica = state.ready === 0 || state.waiting > 0;
  if (state.starts !== undefined && lacksReplica && state.nowMs < state.starts.retryAtMs) {
    const seconds = Math.ceil((state.starts.retryAtMs - state.nowMs) / 1000);
    const { failures, reason } = state.starts;
    // Only what is not the release's fault has made the next start wait.
    if (failures === 0) return `The next replica starts in ${seconds} s: ${reason}`;
    return `A replica could not be started and will be retried in ${seconds} s: ${reason}`;
  }
  if (state.heldBack !== undefined) return lacksReplica ? state.heldBack : moreWanted;
  if (state.ready === 0 && state.unrouted > 0) {
    return "The app runs, but is not ready for calls: its ready check (readycheckEndpoint) fails.";
  }
  if (state.waiting > 0 && state.ready >= state.replicasMax) {
    const busy =
      state.ready === 1 ? "The only replica is busy" : `All ${state.ready} replicas are busy`;
    return `${busy}, and maxReplicaCount allows no more.`;
  }
  return undefined;
}

function startingText({
  starting,
  pending,
}: {
  readonly starting: number;
  readonly pending: number;
}): string {
  if (pending === starting) return "A replica is waiting for a machine with enough capacity.";
  return starting === 1 ? "A replica is starting." : `${starting} replicas are starting.`;
}
