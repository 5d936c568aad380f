// Reconciles one app: reads its route, demand and replicas, decides how many there should be, starts or ends the
// difference, and publishes the result to the proxy. Never waits.
import type { Driver } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import { neverFits, type Allowance } from "./allowance.ts";
import { waitReason, type AppState, type RouteSource, type SchedulerRoute } from "./app-state.ts";
import type { Counters } from "./counters.ts";
import { adoptedHistory, decide, newHistory } from "./decide.ts";
import type { DemandSource, Occupancy } from "./demand.ts";
import { plan, planExchange, type ReplicaPlan, type PlannedReplica } from "./plan.ts";
import { ProjectLimits } from "./project-limits.ts";
import type { Fleet, Replica, ReplicaEnd, ReplicaRelease } from "./replica.ts";
import type { ReplicaRunner } from "./replica-runner.ts";
import { chooseCompute, gpuCountOf, type ComputeChoice } from "./replica-spec.ts";
import type { ReplicaState } from "./replica-state.ts";
import type { ReplicaView, StartFailure } from "./replica-view.ts";
import type { Utilization } from "./utilization.ts";
import {
  isOver,
  recordFailure,
  settledMs,
  shownFailure,
  startsAllowed,
  type Failure,
  type StartRecord,
} from "./start-record.ts";

export type ReconcilerParts = {
  readonly routes: RouteSource;
  readonly demand: DemandSource;
  readonly occupancy: Occupancy;
  readonly fleet: Fleet;
  readonly runner: ReplicaRunner;
  readonly view: ReplicaView;
  readonly allowance: Allowance;
  readonly utilization: Utilization;
  readonly counters: Counters;
  readonly clock: Clock;
};

export type ReconcileOptions = {
  readonly driver: Pick<Driver, "capacity" | "capabilities">;
  /** Schedules another turn for the app after `afterMs`. */
  readonly again: (appId: AppId, afterMs: number) => void;
};

/** Maximum number of an app's starts that the driver has not answered; the rest of a burst follows as answers arrive. */
const creatingMax = 16;

type Live = NonNullable<SchedulerRoute["live"]>;

/** Reconciles apps, and keeps the state of each for the next turn. */
export class AppReconciler {
  /** The state kept for each app. */
  readonly states = new Map<AppId, AppState>();
  readonly #parts: ReconcilerParts;
  readonly #options: ReconcileOptions;
  readonly #room: ProjectLimits;

  constructor(parts: ReconcilerParts, options: ReconcileOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#room = new ProjectLimits(parts);
  }

  /** Reconciles the app once. Everything that it starts continues in the background. */
  run(appId: AppId): void {
    const { fleet, routes, runner } = this.#parts;
    const route = routes.byAppId(appId);
    const replicas = fleet.ofApp(appId);
    for (const replica of replicas) runner.endWhenIdle(replica);
    if (route?.live === undefined || route.live === null) {
      this.#endAll(appId, replicas);
      return;
    }
    const stop = this.#parts.allowance.stopOf(route.projectId, appId);
    if (stop !== undefined) {
      this.#endAll(appId, replicas, { kind: "stopped", reason: stop, retryAtMs: null });
      return;
    }
    this.#runLive(route, route.live, replicas);
  }

  /** The platform has started and knows its replicas: cooldowns go on for those, and start no others. */
  adopted(): void {
    for (const [appId, state] of this.states) {
      state.history = adoptedHistory(state.history, this.#parts.fleet.ofApp(appId).filter(isWanted).length);
    }
  }

  /** Evaluates the exit of a replica that was not on trial. */
  onEnd(replica: Replica, end: ReplicaEnd, stateBefore: ReplicaState): void {
    const { clock, counters, routes } = this.#parts;
    const nowMs = clock.monotonicMs();
    const kind = failureKind(replica, stateBefore, nowMs);
    if (replica.endOrder === null && stateBefore === "ready") counters.crashes++;
    if (kind === undefined) return;
    if (kind !== "crashed") counters.startFailures++;
    const state = this.states.get(replica.appId);
    const { releaseId } = replica.release;
    // A replica on trial, or of a replaced release, says nothing about the live release.
    if (state === undefined || routes.byAppId(replica.appId)?.live?.releaseId !== releaseId) return;
    const reason = replica.endOrder?.reason ?? end.reason;
    const failure: Failure = { releaseId, beganAtMs: replica.beganAtMs, atMs: nowMs, reason, kind };
    state.starts = recordFailure(state.starts, failure, clock.random());
    this.#options.again(replica.appId, Math.max(0, state.starts.retryAtMs - nowMs));
  }

  /** Why calls of the app are waiting, in a sentence for its owner; undefined when nothing delays them. */
  waitReason(appId: AppId): string | undefined {
    const { clock, demand, fleet, routes, view } = this.#parts;
    const live = routes.byAppId(appId)?.live ?? undefined;
    if (live === undefined) return undefined;
    const replicas = fleet.ofApp(appId).filter((replica) => replica.release.releaseId === live.releaseId);
    const starting = replicas.filter((replica) => replica.state === "starting");
    return waitReason({
      failureReason: view.failure(appId)?.reason,
      starts: this.states.get(appId)?.starts,
      heldBack: this.states.get(appId)?.heldBack,
      starting: starting.length,
      pending: starting.filter((replica) => replica.isPending && !replica.isCreating).length,
      ready: view.ready(appId).length,
      unrouted: replicas.filter((replica) => replica.state === "ready" && !replica.isRouted).length,
      waiting: demand.demandOf(appId).waiting,
      replicasMax: live.settings.maxReplicaCount,
      nowMs: clock.monotonicMs(),
    });
  }

  #runLive(route: SchedulerRoute, live: Live, replicas: readonly Replica[]): void {
    const { clock, demand } = this.#parts;
    const { appId } = route;
    const nowMs = clock.monotonicMs();
    const choice = this.#choose(route, live);
    const noCapacity: StartFailure | undefined =
      choice.ok || choice.isFull ? undefined : { kind: "no_capacity", reason: choice.reason, retryAtMs: null };
    const load = demand.demandOf(appId);
    const isAsleep = replicas.length === 0 && load.running + load.waiting === 0 && live.settings.minReplicaCount === 0;
    if (isAsleep && !this.states.has(appId)) {
      this.#show(appId, live, noCapacity);
      return;
    }
    const ofLive = replicas.filter((replica) => isOfLive(replica, live));
    // Stop holding promoted replicas, so that a later release does not find them held.
    for (const replica of ofLive) {
      replica.heldUntilMs = Number.NEGATIVE_INFINITY;
      replica.isTrial = false;
    }
    const state = this.#stateOf(appId, live, ofLive, nowMs);
    const measured = this.#parts.utilization.of(ofLive, live.settings);
    const decision = decide({ settings: live.settings, demand: load, measured, history: state.history, nowMs });
    state.history = decision.history;
    const planned = this.#planned(replicas, route, live);
    const next = plan({
      replicas: planned,
      desired: decision.desired,
      startsMax: choice.ok ? startsMax(state.starts, ofLive, nowMs) : 0,
      cooldownMs: live.settings.cooldownPeriodSeconds * 1000,
      nowMs,
    });
    const wanted = { ...next, gpusEach: choice.ok ? gpuCountOf(live.settings, choice.compute) : 0 };
    const within = this.#room.within(wanted, { ...route, live, isWaiting: load.waiting > 0 });
    state.heldBack = !choice.ok && choice.isFull ? choice.reason : within.heldBack;
    const hasNoRoom = next.starts > 0 && within.starts === 0 && within.drains.length === 0;
    const exchange = hasNoRoom && within.mayExchange ? planExchange(planned) : null;
    this.#carryOut(exchange ?? within, { ...route, ...live }, choice.ok ? choice.compute : "");
    this.#show(appId, live, noCapacity ?? shownFailure(state.starts, nowMs));
    if (isAsleep && decision.desired === 0 && state.starts === undefined) this.states.delete(appId);
  }

  /**
   * The compute type of new replicas, or why there can be none: it is unavailable, or one replica exceeds the project's limits.
   */
  #choose({ projectId }: SchedulerRoute, { settings }: Live): ComputeChoice {
    const choice = chooseCompute(settings, this.#options.driver);
    if (!choice.ok) return choice;
    const limits = this.#parts.allowance.limitsOf(projectId);
    const reason = neverFits(limits, gpuCountOf(settings, choice.compute));
    return reason === undefined ? choice : { ok: false, isFull: false, reason };
  }

  /** The app's state, without outdated failures. */
  #stateOf(appId: AppId, live: Live, ofLive: readonly Replica[], nowMs: number): AppState {
    const state = this.states.get(appId) ?? {
      history: newHistory(ofLive.filter(isWanted).length, nowMs),
      starts: undefined,
      heldBack: undefined,
    };
    this.states.set(appId, state);
    if (state.starts === undefined) return state;
    const readyAtMs = ofLive.flatMap((replica) => replica.readyAtMs ?? []);
    if (isOver(state.starts, { liveReleaseId: live.releaseId, readyAtMs, nowMs })) state.starts = undefined;
    return state;
  }

  #carryOut(next: ReplicaPlan, release: ReplicaRelease, compute: string): void {
    const { fleet, runner } = this.#parts;
    for (const { replicaId, reason } of next.drains) {
      const replica = fleet.get(replicaId);
      if (replica !== undefined) runner.end(replica, { reason, kind: "wanted" });
    }
    const { projectId, appId, releaseId, buildId, settings } = release;
    for (let count = 0; count < next.starts; count++) {
      const deadlineMs = settings.deploymentInitializationTimeout * 1000;
      runner.start({ projectId, appId, releaseId, buildId, settings }, { compute, deadlineMs });
    }
  }

  #planned(replicas: readonly Replica[], route: SchedulerRoute, live: Live): PlannedReplica[] {
    const nowMs = this.#parts.clock.monotonicMs();
    return replicas.flatMap((replica) => {
      const { replicaId, state } = replica;
      if (state !== "starting" && state !== "ready") return [];
      return {
        replicaId,
        state,
        isLive: isOfLive(replica, live),
        isOutdated: replica.restarts < (route.restarts ?? 0),
        isHeld: nowMs < replica.heldUntilMs,
        isTrial: replica.isTrial,
        isRouted: replica.isRouted,
        running: this.#parts.occupancy.running(replicaId),
        readyAtMs: replica.readyAtMs,
      };
    });
  }

  /** Publishes to the proxy which replicas take calls, or why there are none and waiting is useless. */
  #show(appId: AppId, live: Live, failure: StartFailure | undefined): void {
    const { fleet, view } = this.#parts;
    const ofLive = fleet.ofApp(appId).filter((replica) => isOfLive(replica, live));
    const ready = ofLive.flatMap((replica) =>
      replica.state === "ready" && replica.isRouted && replica.ready !== null ? [replica.ready] : [],
    );
    const hasHope = ofLive.some((replica) => replica.state === "starting" || replica.state === "ready");
    view.put(appId, { ready, failure: hasHope ? undefined : failure });
  }

  /** Ends all replicas except those on trial: no release takes calls, or the app is stopped. */
  #endAll(appId: AppId, replicas: readonly Replica[], stop?: StartFailure): void {
    const { clock, runner, view } = this.#parts;
    const nowMs = clock.monotonicMs();
    const reason = stop === undefined ? "Its release does not accept calls." : "A budget is used up.";
    for (const replica of replicas) {
      const isWanted = nowMs < replica.heldUntilMs || replica.state === "draining";
      if (!isWanted) runner.end(replica, { reason, kind: "wanted" });
    }
    this.states.delete(appId);
    view.put(appId, { ready: [], failure: stop });
  }
}

function isOfLive(replica: Replica, live: Live): boolean {
  return replica.release.releaseId === live.releaseId;
}

function isWanted({ state }: Replica): boolean {
  return state === "starting" || state === "ready";
}

/** How many starts may be added now, considering failures and starts that the driver has not answered. */
function startsMax(starts: StartRecord | undefined, ofLive: readonly Replica[], nowMs: number): number {
  const starting = ofLive.filter((replica) => replica.state === "starting");
  const creating = starting.filter((replica) => replica.isCreating).length;
  return startsAllowed(starts, { nowMs, starting: starting.length, max: Math.max(0, creatingMax - creating) });
}

/** The kind of failed start that an exit represents; undefined when it represents none. */
function failureKind(replica: Replica, stateBefore: ReplicaState, nowMs: number): Failure["kind"] | undefined {
  if (replica.endOrder?.kind === "timeout") return "timeout";
  if (replica.endOrder !== null) return undefined;
  if (stateBefore === "starting") return "exited";
  const livedMs = replica.readyAtMs === null ? Number.POSITIVE_INFINITY : nowMs - replica.readyAtMs;
  return stateBefore === "ready" && livedMs < settledMs ? "crashed" : undefined;
}
