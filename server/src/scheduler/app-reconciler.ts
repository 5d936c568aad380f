// Reconciles one app: reads its route, demand and replicas, has `app-decision.ts` decide, starts
// what is missing, ends what is too much, and publishes the result to the proxy. Never waits.
import type { AppId } from "#lib/ids.ts";
import { decideApp, type AppDecision, type AppReading } from "./app-decision.ts";
import type { AppStates, RouteSource, SchedulerRoute } from "./app-state.ts";
import type { DemandSource } from "./demand.ts";
import { ReleaseScaler, type ReleaseScalerParts } from "./release-scaler.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaView } from "./replica-view.ts";
import { isStarting, viewOf } from "./served-releases.ts";
import type { Utilization } from "./utilization.ts";

type ReconcilerParts = ReleaseScalerParts & {
  /** Kept for the next turn of each app. */
  readonly states: AppStates;
  readonly routes: RouteSource;
  readonly demand: DemandSource;
  readonly view: ReplicaView;
  readonly utilization: Utilization;
};

/** Reconciles apps; one per scheduler. */
export class AppReconciler {
  readonly #parts: ReconcilerParts;
  readonly #scaler: ReleaseScaler;

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    this.#scaler = new ReleaseScaler(parts);
  }

  /** One turn of the app. Everything that it starts continues in the background. */
  run(appId: AppId): void {
    const { states } = this.#parts;
    const reading = this.#read(appId);
    const decision = decideApp(reading);
    const heldBack = this.#act(reading, decision);
    if (decision.state === undefined) states.delete(appId);
    else states.set(appId, { ...decision.state, heldBack });
    this.#publish(appId, decision);
  }

  #read(appId: AppId): AppReading {
    const { allowance, clock, demand, fleet, routes, states, utilization } = this.#parts;
    const route = routes.byAppId(appId);
    return {
      route,
      stop: route === undefined ? undefined : allowance.stopOf(route.projectId, appId),
      replicas: fleet.ofApp(appId),
      load: demand.demandOf(appId),
      state: states.get(appId),
      choiceOf: (ofApp, release) => this.#scaler.choose(ofApp, release),
      useOf: (replicas, settings) => utilization.of(replicas, settings),
      nowMs: clock.monotonicMs(),
    };
  }

  /** Carries the decision out; returns why fewer replicas were started than needed. */
  #act(reading: AppReading, decision: AppDecision): string | undefined {
    const { drain } = this.#parts;
    const { route, replicas, nowMs } = reading;
    const { ends, served, leaving } = decision;
    if (route !== undefined) takeSettings(route, replicas);
    // This ends those draining replicas whose last call has ended.
    for (const replica of replicas) drain.endWhenIdle(replica);
    for (const replica of served.flatMap((one) => one.replicas)) takeIntoService(replica);
    for (const replica of leaving.replicas) replica.leavingSinceMs ??= nowMs;
    for (const { replica, reason } of ends) drain.end(replica, { reason, kind: "wanted" });
    return route === undefined ? undefined : this.#scale(route, reading, decision);
  }

  /** Starts and ends replicas until each release has as many as were decided. */
  #scale(
    route: SchedulerRoute,
    { load }: AppReading,
    { served, leaving }: AppDecision,
  ): string | undefined {
    const scaler = this.#scaler;
    scaler.drainLeaving(leaving.replicas, { route, wanted: leaving.wanted });
    const isAlone = served.length === 1 && leaving.replicas.length === 0;
    const isWaiting = load.waiting > 0;
    const reasons = served.map((one) => scaler.scale(one, { route, isAlone, isWaiting }));
    const heldBack = reasons.findLast((reason) => reason !== undefined);
    const isOutage = served.some(({ choice }) => !choice.ok && choice.why === "outage");
    const hasStarting = served.some((one) => one.replicas.some(isStarting));
    const isHeldUp = heldBack !== undefined && !isOutage && !hasStarting;
    // A leaving replica may hold the very capacity that its successor needs.
    if (isHeldUp)
      scaler.drainLeaving(leaving.replicas, { route, wanted: leaving.wanted - 1, endsMax: 1 });
    return heldBack;
  }

  /** Tells the proxy which replicas take calls, and which part of them. */
  #publish(appId: AppId, { served, leaving, failure }: AppDecision): void {
    const { fleet, view } = this.#parts;
    const weights = new Map(served.map(({ release, weight }) => [release.releaseId, weight]));
    view.put(
      appId,
      viewOf({
        replicas: fleet.ofApp(appId),
        weights,
        leaving: leaving.replicas,
        weightLeft: leaving.weight,
        failure,
      }),
    );
  }
}

/**
 * Gives replicas the current settings of their release: some settings change without a new release,
 * and replicas that were started or adopted before the change follow it too.
 */
function takeSettings({ live, rollOut }: SchedulerRoute, replicas: readonly Replica[]): void {
  for (const replica of replicas) {
    const release = [live, rollOut?.release].find(
      (one) => one?.releaseId === replica.release.releaseId,
    );
    if (release) replica.settings = release.settings;
  }
}

/**
 * Marks a replica of a served release as one in service: its hold and its trial are over. If its
 * release is replaced later, the time for which the replica may still serve begins anew.
 */
function takeIntoService(replica: Replica): void {
  replica.heldUntilMs = Number.NEGATIVE_INFINITY;
  replica.isTrial = false;
  replica.leavingSinceMs = null;
}
