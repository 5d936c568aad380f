// Reconciles one app: reads its route, demand and replicas, decides how many there should be,
// starts or ends the difference, and publishes the result to the proxy. Never waits.
import type { AppId, ReleaseId } from "#lib/ids.ts";
import { neverFits } from "./allowance.ts";
import {
  waitReason,
  type AppState,
  type RouteSource,
  type SchedulerRoute,
  type ServedRelease,
} from "./app-state.ts";
import type { CapacityLine } from "./capacity-line.ts";
import type { Counters } from "./counters.ts";
import { decide, newHistory } from "./decide.ts";
import type { DemandSource } from "./demand.ts";
import { plan, planExchange, planLeaving, type ReplicaPlan, type PlannedReplica } from "./plan.ts";
import { ProjectLimits, type ProjectLimitsParts } from "./project-limits.ts";
import type { Replica, ReplicaEnd } from "./replica.ts";
import { gpuCountOf, type ComputeChoice } from "./replica-spec.ts";
import type { ReplicaState } from "./replica-state.ts";
import type { ReplicaView, StartFailure } from "./replica-view.ts";
import * as services from "./served-releases.ts";
import { countWhileMoving, divide } from "./shares.ts";
import type { Utilization } from "./utilization.ts";
import { recordFailure, shownFailure, type Failure, type StartRecord } from "./start-record.ts";

export type ReconcilerParts = ProjectLimitsParts & {
  readonly routes: RouteSource;
  readonly demand: DemandSource;
  readonly view: ReplicaView;
  readonly utilization: Utilization;
  readonly counters: Counters;
};

export type ReconcileOptions = {
  readonly line: CapacityLine;
  /** Schedules another turn for the app after `afterMs`. */
  readonly again: (appId: AppId, afterMs: number) => void;
};

/** A release that takes calls, in one turn. */
type Served = {
  readonly release: ServedRelease;
  /** The part of the calls that it is to get, from 0 to 1. */
  readonly target: number;
  readonly replicas: readonly Replica[];
  readonly choice: ComputeChoice;
};

/** What leaves, beyond the time for a start of its successor. */
const leaveSlackMs = 60_000;

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
    const stop = this.#stopOf(appId, route);
    if (route?.live === undefined || route.live === null || stop !== undefined) {
      this.#endAll(appId, replicas, { route, stop });
      return;
    }
    this.#runLive(route, route.live, replicas);
  }

  /** Evaluates the exit of a replica that was not on trial. */
  onEnd(
    replica: Replica,
    end: ReplicaEnd,
    { stateBefore, hadCalls }: { readonly stateBefore: ReplicaState; readonly hadCalls: boolean },
  ): void {
    const { clock, counters, routes } = this.#parts;
    const nowMs = clock.monotonicMs();
    const kind = services.failureKind(replica, end, { stateBefore, hadCalls, nowMs });
    if (replica.endOrder === null && stateBefore === "ready") counters.crashes++;
    if (kind === undefined) return;
    if (kind !== "crashed" && kind !== "by_call") counters.startFailures++;
    const state = this.states.get(replica.appId);
    const { releaseId } = replica.release;
    const route = routes.byAppId(replica.appId);
    const isLive = route?.live?.releaseId === releaseId;
    // A replica on trial, or of a replaced release, says nothing about those that are served.
    if (state === undefined || (!isLive && route?.rollOut?.release.releaseId !== releaseId)) return;
    const reason = replica.endOrder?.reason ?? end.reason;
    const isRefused = end.isRefused === true;
    const failure: Failure = {
      releaseId,
      beganAtMs: replica.beganAtMs,
      atMs: nowMs,
      reason,
      kind,
      isRefused,
    };
    const starts = recordFailure(
      isLive ? state.starts : state.rollOutStarts,
      failure,
      clock.random(),
    );
    if (isLive) state.starts = starts;
    else state.rollOutStarts = starts;
    this.#options.again(replica.appId, Math.max(0, starts.retryAtMs - nowMs));
  }

  /** How a release that is served does. */
  serviceOf(appId: AppId, releaseId: ReleaseId): services.ReleaseService {
    const state = this.states.get(appId);
    const starts = [state?.starts, state?.rollOutStarts].find(
      (record) => record?.releaseId === releaseId,
    );
    const own = this.#parts.fleet
      .ofApp(appId)
      .filter((replica) => services.isOf(replica, { releaseId }));
    return {
      serving: own.filter(services.isServing).length,
      unready: own.filter((replica) => replica.state === "ready" && !services.isServing(replica))
        .length,
      failedStarts: starts?.failures ?? 0,
      startReason: starts?.reason ?? null,
    };
  }

  /** See `waitReason` in `app-state.ts`. */
  waitReason(appId: AppId): string | undefined {
    const { clock, demand, fleet, routes, view } = this.#parts;
    const live = routes.byAppId(appId)?.live ?? undefined;
    if (live === undefined) return undefined;
    const replicas = fleet
      .ofApp(appId)
      .filter((replica) => replica.release.releaseId === live.releaseId);
    const starting = replicas.filter((replica) => replica.state === "starting");
    return waitReason({
      failureReason: view.failure(appId)?.reason,
      starts: this.states.get(appId)?.starts,
      heldBack: this.states.get(appId)?.heldBack,
      starting: starting.length,
      pending: starting.filter((replica) => replica.isPending && !replica.isCreating).length,
      // Those of a release before, which serve until one of this starts, say nothing about it.
      ready: view.ready(appId).filter(({ releaseId }) => releaseId === live.releaseId).length,
      unrouted: replicas.filter((replica) => replica.state === "ready" && !replica.isRouted).length,
      waiting: demand.demandOf(appId).waiting,
      replicasMax: live.settings.maxReplicaCount,
      nowMs: clock.monotonicMs(),
    });
  }

  #runLive(route: SchedulerRoute, live: ServedRelease, replicas: readonly Replica[]): void {
    const { clock, demand, utilization } = this.#parts;
    const { appId } = route;
    const nowMs = clock.monotonicMs();
    const served = this.#served(route, live, replicas);
    const noCapacity = failureOf(this.#choose(route, live), nowMs);
    const load = demand.demandOf(appId);
    const isAsleep =
      replicas.length === 0 &&
      load.running + load.waiting === 0 &&
      live.settings.minReplicaCount === 0;
    if (isAsleep && !this.states.has(appId)) {
      this.#parts.view.put(appId, { ready: [], failure: noCapacity });
      return;
    }
    const leaving = this.#leaving(route, replicas);
    const serving = [...served.flatMap((one) => one.replicas), ...leaving];
    const state = this.#stateOf(route, live, serving, nowMs);
    const cooldownSecondsMax = Math.max(
      ...served.map(({ release }) => release.settings.cooldownPeriodSeconds),
    );
    const decisions = served.map(({ release: { settings } }) => {
      const measured = utilization.of(serving, settings);
      return decide({
        settings,
        demand: load,
        measured,
        history: state.history,
        cooldownSecondsMax,
        nowMs,
      });
    });
    const needed = decisions[0]?.desired ?? 0;
    state.history = decisions[0]?.history ?? state.history;
    const parties = served.map(({ target, replicas: own }, index) => ({
      target,
      needed: decisions[index]?.desired ?? 0,
      ready: own.filter(services.isServing).length,
    }));
    const divided = divide([...parties, { target: 0, needed, ready: leaving.length }]);
    const left = divided.at(-1) ?? { weight: 0, wanted: 0 };
    this.#carryOut(planLeaving(this.#planned(leaving, route), left.wanted));
    state.heldBack = undefined;
    served.forEach((one, index) => {
      const starts = one.release === live ? state.starts : state.rollOutStarts;
      const desired = divided[index]?.wanted ?? 0;
      const isAlone = serving.length === one.replicas.length && served.length === 1;
      const given = { route, desired, starts, isAlone, isWaiting: load.waiting > 0 };
      state.heldBack = this.#scale(one, given) ?? state.heldBack;
    });
    const isOutage = served.some(({ choice }) => !choice.ok && choice.why === "outage");
    const isHeldUp =
      state.heldBack !== undefined &&
      !isOutage &&
      !served.some((one) => one.replicas.some(services.isStarting));
    // What leaves may hold the very capacity that its successor needs.
    if (isHeldUp)
      this.#carryOut(planLeaving(this.#planned(leaving, route), left.wanted - 1).slice(0, 1));
    const weights = new Map(
      served.map(({ release }, index) => [release.releaseId, divided[index]?.weight ?? 0]),
    );
    const failure = noCapacity ?? shownFailure(state.starts, nowMs);
    const shown = {
      replicas: this.#parts.fleet.ofApp(appId),
      weights,
      leaving,
      weightLeft: left.weight,
      failure,
    };
    this.#parts.view.put(appId, services.viewOf(shown));
    const isCalm = state.starts === undefined && state.rollOutStarts === undefined;
    if (isAsleep && needed === 0 && isCalm) this.states.delete(appId);
  }

  /** The releases that are to take calls, the live one first. */
  #served(route: SchedulerRoute, live: ServedRelease, replicas: readonly Replica[]): Served[] {
    const { rollOut } = route;
    const part = rollOut === null || rollOut === undefined ? 0 : rollOut.share / 100;
    const targets = [
      [live, 1 - part] as const,
      ...(part > 0 && rollOut ? [[rollOut.release, part] as const] : []),
    ];
    return targets.map(([release, target]) => {
      const own = replicas.filter((replica) => services.isOf(replica, release));
      // Stop holding promoted replicas, so that a later release does not find them held.
      for (const replica of own) {
        replica.heldUntilMs = Number.NEGATIVE_INFINITY;
        replica.isTrial = false;
        replica.leavingSinceMs = null;
      }
      return { release, target, replicas: own, choice: this.#choose(route, release) };
    });
  }

  /**
   * Replicas of replaced releases that serve until their successors do; ends all others that belong
   * to no served release.
   */
  #leaving(route: SchedulerRoute, replicas: readonly Replica[]): Replica[] {
    const { clock, runner } = this.#parts;
    const nowMs = clock.monotonicMs();
    const { live, rollOut, refusedReleaseId } = route;
    const keptMs = (live?.settings.deploymentInitializationTimeout ?? 0) * 1000 + leaveSlackMs;
    const others = replicas.filter(
      (replica) =>
        (replica.state === "starting" || replica.state === "ready") &&
        nowMs >= replica.heldUntilMs &&
        ![live?.releaseId, rollOut?.release.releaseId].includes(replica.release.releaseId),
    );
    return others.filter((replica) => {
      replica.leavingSinceMs ??= nowMs;
      const isInTime = nowMs - replica.leavingSinceMs < keptMs;
      const isRefused = replica.release.releaseId === refusedReleaseId;
      if (services.isServing(replica) && !replica.isTrial && !isRefused && isInTime) return true;
      const reason = replica.isTrial
        ? "Its release was only tested and never received calls."
        : replacedReason;
      runner.end(replica, { reason, kind: "wanted" });
      return false;
    });
  }

  /** Starts and ends replicas of one release; returns why fewer were started than needed. */
  #scale(
    { release, target, replicas, choice }: Served,
    given: {
      readonly route: SchedulerRoute;
      readonly desired: number;
      readonly starts: StartRecord | undefined;
      /** True when the release's replicas are all that the app has. */
      readonly isAlone: boolean;
      readonly isWaiting: boolean;
    },
  ): string | undefined {
    const { route, desired, starts, isAlone, isWaiting } = given;
    const { settings } = release;
    const nowMs = this.#parts.clock.monotonicMs();
    const planned = this.#planned(replicas, route);
    const allowed =
      choice.ok || choice.why === "full" ? services.startsMax(starts, replicas, nowMs) : 0;
    const next = plan({
      replicas: planned,
      desired,
      nowMs,
      startsMax: isAlone ? allowed : Math.min(allowed, this.#startsBeside(route, replicas)),
      // While calls move to another release, the cooldown of the need is enough.
      cooldownMs: target === 1 ? settings.cooldownPeriodSeconds * 1000 : 0,
    });
    const [firstType = "CPU"] = settings.compute;
    const wanted = {
      ...next,
      gpusEach: gpuCountOf(settings, choice.ok ? choice.compute : firstType),
    };
    const within = this.#room.within(wanted, { ...route, live: release, isWaiting });
    const hasNoRoom = next.starts > 0 && within.starts === 0 && within.drains.length === 0;
    const exchange = hasNoRoom && within.mayExchange ? planExchange(planned) : null;
    this.#carryOut((exchange ?? within).drains);
    const isOutage = !choice.ok && choice.why === "outage";
    // Whoever waits in line keeps the place.
    const full = isOutage ? undefined : this.#start(route, release, (exchange ?? within).starts);
    const isDraining = this.#parts.fleet
      .ofApp(route.appId)
      .some(({ state }) => state === "draining");
    // What a restart replaces may have the very capacity that its replacement needs.
    if (full !== undefined && !isDraining) this.#carryOut(planExchange(planned)?.drains ?? []);
    const outage = isOutage && desired > planned.length ? choice.reason : undefined;
    return full ?? within.heldBack ?? outage;
  }

  /** Starts as many as fit into the pools; returns why not all did, and waits in line then. */
  #start(
    { projectId, appId }: SchedulerRoute,
    release: ServedRelease,
    count: number,
  ): string | undefined {
    const { line } = this.#options;
    const { releaseId, buildId, settings } = release;
    const wanted = { projectId, appId, releaseId, buildId, settings };
    for (let started = 0; started < count; started++) {
      const choice = line.choose(wanted);
      if (!choice.ok) {
        line.wait(wanted, started > 0);
        return choice.reason;
      }
      const deadlineMs = settings.deploymentInitializationTimeout * 1000;
      this.#parts.runner.start(wanted, {
        request: choice.request,
        ahead: line.ahead(wanted),
        deadlineMs,
      });
    }
    line.leave(releaseId);
    return undefined;
  }

  /** How many replicas may start while the app has replicas of several releases. */
  #startsBeside(
    { appId, live, rollOut, restarts = 0 }: SchedulerRoute,
    own: readonly Replica[],
  ): number {
    const { clock, fleet } = this.#parts;
    const nowMs = clock.monotonicMs();
    const maxima = [live, rollOut?.release].map(
      (release) => release?.settings.maxReplicaCount ?? 0,
    );
    const replicasMax = Math.max(...maxima);
    const isRestarting = own.some((replica) => replica.restarts < restarts);
    const max =
      countWhileMoving(replicasMax) +
      (isRestarting ? countWhileMoving(replicasMax) - replicasMax : 0);
    const count = fleet
      .ofApp(appId)
      .filter(
        ({ state, heldUntilMs }) =>
          (state === "starting" || state === "ready") && nowMs >= heldUntilMs,
      ).length;
    return Math.max(0, max - count);
  }

  /**
   * The compute type of new replicas, or why there can be none: it is unavailable, or one replica
   * exceeds the project's limits.
   */
  #choose(
    { projectId, appId }: SchedulerRoute,
    { releaseId, settings }: ServedRelease,
  ): ComputeChoice {
    const choice = this.#options.line.choose({ appId, releaseId, settings });
    if (!choice.ok) return choice;
    const limits = this.#parts.allowance.limitsOf(projectId);
    const reason = neverFits(limits, gpuCountOf(settings, choice.compute));
    return reason === undefined ? choice : { ok: false, why: "never", reason };
  }

  /** The app's state, without outdated failures. */
  #stateOf(
    route: SchedulerRoute,
    live: ServedRelease,
    serving: readonly Replica[],
    nowMs: number,
  ): AppState {
    const state = this.states.get(route.appId) ?? {
      history: newHistory(serving.filter(isWanted).length, nowMs),
      starts: undefined,
      heldBack: undefined,
    };
    this.states.set(route.appId, state);
    if (state.rollOutStarts?.releaseId === live.releaseId) state.starts = state.rollOutStarts;
    state.starts = services.currentStarts(state.starts, live.releaseId, serving, nowMs);
    state.rollOutStarts = services.currentStarts(
      state.rollOutStarts,
      route.rollOut?.release.releaseId,
      serving,
      nowMs,
    );
    return state;
  }

  #carryOut(drains: ReplicaPlan["drains"]): void {
    const { fleet, runner } = this.#parts;
    for (const { replicaId, reason } of drains) {
      const replica = fleet.get(replicaId);
      if (replica !== undefined) runner.end(replica, { reason, kind: "wanted" });
    }
  }

  #planned(replicas: readonly Replica[], route: SchedulerRoute): PlannedReplica[] {
    return replicas.flatMap((replica) => {
      const { replicaId, state, isRouted, readyAtMs } = replica;
      if (state !== "starting" && state !== "ready") return [];
      const isOutdated = replica.restarts < (route.restarts ?? 0);
      const running = this.#parts.occupancy.running(replicaId);
      return [{ replicaId, state, isOutdated, isRouted, running, readyAtMs }];
    });
  }

  /** Why the app takes no calls, whatever its releases are; undefined: nothing stops it. */
  #stopOf(appId: AppId, route: SchedulerRoute | undefined): StartFailure | undefined {
    if (route === undefined)
      return { kind: "deleted", reason: "The app was deleted.", retryAtMs: null };
    const stop = this.#parts.allowance.stopOf(route.projectId, appId);
    return stop === undefined
      ? undefined
      : { kind: stop.code, reason: stop.reason, retryAtMs: null };
  }

  /**
   * Ends all replicas except those on trial: no release takes calls, or the app is stopped or gone.
   */
  #endAll(
    appId: AppId,
    replicas: readonly Replica[],
    {
      route,
      stop,
    }: { readonly route: SchedulerRoute | undefined; readonly stop: StartFailure | undefined },
  ): void {
    const { clock, demand, runner, view } = this.#parts;
    const nowMs = clock.monotonicMs();
    const reason = endReasons[stop?.kind ?? "start_failed"];
    for (const replica of replicas) {
      const { releaseId } = replica.release;
      const isPromoted =
        route?.live?.releaseId === releaseId || route?.rollOut?.release.releaseId === releaseId;
      const isWanted = (nowMs < replica.heldUntilMs && !isPromoted) || replica.state === "draining";
      if (!isWanted) runner.end(replica, { reason, kind: "wanted" });
    }
    this.states.delete(appId);
    // Nothing is kept of an app that is gone, once nobody asks for it.
    const isOver =
      stop?.kind === "deleted" && replicas.length === 0 && demand.demandOf(appId).waiting === 0;
    view.put(appId, { ready: [], failure: isOver ? undefined : stop });
  }
}

/** Why replicas end when their app takes no calls. */
const endReasons: Readonly<Record<StartFailure["kind"], string>> = {
  start_failed: "Its release does not accept calls.",
  no_capacity: "Its release does not accept calls.",
  outage: "Its release does not accept calls.",
  budget_reached: "A budget is used up.",
  app_stopped: "The app was stopped.",
  deleted: "The app was deleted.",
};

/**
 * How long calls wait for a backend that does not answer: an engine that is restarted is back by
 * then.
 */
const outagePatienceMs = 10_000;

const replacedReason = "Another release took its place.";

function failureOf(choice: ComputeChoice, nowMs: number): StartFailure | undefined {
  if (choice.ok || choice.why === "full") return undefined;
  const { reason } = choice;
  if (choice.why !== "outage") return { kind: "no_capacity", reason, retryAtMs: null };
  const { sinceMs } = choice;
  const tries = Math.floor((nowMs - sinceMs) / outagePatienceMs);
  return tries === 0
    ? undefined
    : { kind: "outage", reason, retryAtMs: sinceMs + (tries + 1) * outagePatienceMs };
}

function isWanted({ state }: Replica): boolean {
  return state === "starting" || state === "ready";
}
