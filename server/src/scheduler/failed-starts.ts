// Judges the ends of replicas: which of them are failed starts of a release that takes calls, so
// that its next start waits. The judgement is pure; the class keeps it in the state of the app.
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import type { AppStates, RouteSource } from "./app-state.ts";
import type { Counters } from "./counters.ts";
import type { Replica, ReplicaEnd } from "./replica.ts";
import type { EndedFrom } from "./replica-lifecycle.ts";
import { recordFailure, settledMs, type Failure } from "./start-record.ts";

type FailedStartsParts = {
  readonly states: AppStates;
  readonly routes: RouteSource;
  readonly counters: Counters;
  readonly clock: Clock;
  /** Gives the app a turn after `afterMs`. */
  readonly again: (appId: AppId, afterMs: number) => void;
};

/** Records failed starts; one per scheduler. */
export class FailedStarts {
  readonly #parts: FailedStartsParts;

  constructor(parts: FailedStartsParts) {
    this.#parts = parts;
  }

  /** Judges the end of a replica that was not on trial, and records a failed start. */
  onEnd(replica: Replica, end: ReplicaEnd, from: EndedFrom): void {
    const { states, routes, counters, clock, again } = this.#parts;
    const { appId, endOrder, beganAtMs } = replica;
    const nowMs = clock.monotonicMs();
    const kind = failureKind(replica, end, { ...from, nowMs });
    if (endOrder === null && from.stateBefore === "ready") counters.crashes++;
    if (kind === undefined) return;
    // A replica that had been ready started successfully, even if it counts as a failed start here.
    if (kind !== "crashed" && kind !== "by_call") counters.startFailures++;
    const state = states.get(appId);
    const { releaseId } = replica.release;
    const route = routes.byAppId(appId);
    const isLive = route?.live?.releaseId === releaseId;
    const isRolledOut = route?.rollOut?.release.releaseId === releaseId;
    // A replica of a release that is not served says nothing about the served releases.
    const isServed = isLive || isRolledOut;
    if (state === undefined || !isServed) return;
    const failure: Failure = {
      releaseId,
      beganAtMs,
      atMs: nowMs,
      reason: endOrder?.reason ?? end.reason,
      kind,
      isRefused: end.isRefused === true,
    };
    const earlier = isLive ? state.starts : state.rollOutStarts;
    const starts = recordFailure(earlier, failure, clock.random());
    states.set(appId, isLive ? { ...state, starts } : { ...state, rollOutStarts: starts });
    again(appId, Math.max(0, starts.retryAtMs - nowMs));
  }
}

/**
 * The kind of failed start that an end counts as; undefined: it is no failed start. An end that the
 * platform ordered is none, unless the start took too long.
 */
export function failureKind(
  { endOrder, readyAtMs }: Pick<Replica, "endOrder" | "readyAtMs">,
  end: Pick<ReplicaEnd, "isExternal">,
  { stateBefore, hadCalls, nowMs }: EndedFrom & { readonly nowMs: number },
): Failure["kind"] | undefined {
  if (endOrder?.kind === "timeout") return "timeout";
  if (endOrder !== null) return undefined;
  const isExternal = end.isExternal === true;
  if (stateBefore === "starting") return isExternal ? "external" : "exited";
  const readyMs = readyAtMs === null ? Number.POSITIVE_INFINITY : nowMs - readyAtMs;
  if (stateBefore !== "ready" || isExternal || readyMs >= settledMs) return undefined;
  return hadCalls ? "by_call" : "crashed";
}
