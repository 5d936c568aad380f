// Reconciles one app: reads its route, demand and replicas, decides how many there should be,
// starts or ends the difference, and publishes the result to the proxy. Never waits.
import type { AppId, ReleaseId } from "#lib/ids.ts";
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
import type { Demand, DemandSource } from "./demand.ts";
import type { ProjectLimitsParts } from "./project-limits.ts";
import { ReleaseScaler, type Served } from "./release-scaler.ts";
import type { Replica, ReplicaEnd } from "./replica.ts";
import type { ComputeChoice } from "./replica-spec.ts";
import type { ReplicaStarter } from "./replica-starter.ts";
import type { ReplicaState } from "./replica-state.ts";
import type { ReplicaView, StartFailure } from "./replica-view.ts";
import * as services from "./served-releases.ts";
import { divide, type Division } from "./shares.ts";
import type { Utilization } from "./utilization.ts";
import { recordFailure, shownFailure, type Failure } from "./start-record.ts";

export type ReconcilerParts = ProjectLimitsParts & {
  readonly routes: RouteSource;
  readonly demand: DemandSource;
  readonly view: ReplicaView;
  readonly utilization: Utilization;
  readonly counters: Counters;
  readonly starter: ReplicaStarter;
  readonly line: CapacityLine;
  /** Schedules another turn for the app after `afterMs`. */
  readonly again: (appId: AppId, afterMs: number) => void;
};

/** What an app has in one turn. */
type Turn = {
  readonly route: SchedulerRoute;
  /** The live release first. */
  readonly served: readonly Served[];
  /** Replicas of replaced releases, which serve until their successors do. */
  readonly leaving: readonly Replica[];
  /** All replicas of `served` and `leaving`. */
  readonly serving: readonly Replica[];
  readonly load: Demand;
  readonly state: AppState;
  readonly nowMs: number;
};

/** What was decided in one turn. */
type Decided = {
  /** How many replicas of the live release would serve all calls. */
  readonly needed: number;
  readonly history: AppState["history"] | undefined;
  /** For each served release, in their order. */
  readonly served: readonly Division[];
  /** For what leaves, together. */
  readonly left: Division;
};

/** How much longer than a start of its successor may take a leaving replica is kept. */
const leaveSlackMs = 60_000;

/** Reconciles apps, and keeps the state of each for the next turn. */
export class AppReconciler {
  /** The state kept for each app. */
  readonly states = new Map<AppId, AppState>();
  readonly #parts: ReconcilerParts;
  readonly #scaler: ReleaseScaler;

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    this.#scaler = new ReleaseScaler(parts);
  }

  /** Reconciles the app once. Everything that it starts continues in the background. */
  run(appId: AppId): void {
    const { drain, fleet, routes } = this.#parts;
    const route = routes.byAppId(appId);
    const replicas = fleet.ofApp(appId);
    if (route !== undefined) takeSettings(route, replicas);
    for (const replica of replicas) drain.endWhenIdle(replica);
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
    this.#parts.again(replica.appId, Math.max(0, starts.retryAtMs - nowMs));
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
      // Replicas of an earlier release say nothing about this one.
      ready: view.ready(appId).filter(({ releaseId }) => releaseId === live.releaseId).length,
      unrouted: replicas.filter((replica) => replica.state === "ready" && !replica.isRouted).length,
      waiting: demand.demandOf(appId).waiting,
      replicasMax: live.settings.maxReplicaCount,
      nowMs: clock.monotonicMs(),
    });
  }

  #runLive(route: SchedulerRoute, live: ServedRelease, replicas: readonly Replica[]): void {
    const { clock, demand, view } = this.#parts;
    const { appId } = route;
    const nowMs = clock.monotonicMs();
    const served = this.#served(route, live, replicas);
    const noCapacity = failureOf(this.#scaler.choose(route, live), nowMs);
    const load = demand.demandOf(appId);
    const isAsleep =
      replicas.length === 0 &&
      load.running + load.waiting === 0 &&
      live.settings.minReplicaCount === 0;
    if (isAsleep && !this.states.has(appId)) {
      view.put(appId, { ready: [], failure: noCapacity });
      return;
    }
    const leaving = this.#leaving(route, replicas);
    const serving = [...served.flatMap((one) => one.replicas), ...leaving];
    const state = this.#stateOf(route, live, serving, nowMs);
    const turn = { route, served, leaving, serving, load, state, nowMs };
    const decided = this.#decide(turn);
    state.history = decided.history ?? state.history;
    state.heldBack = this.#act(turn, decided);
    this.#publish(turn, { decided, failure: noCapacity ?? shownFailure(state.starts, nowMs) });
    const isCalm = state.starts === undefined && state.rollOutStarts === undefined;
    if (isAsleep && decided.needed === 0 && isCalm) this.states.delete(appId);
  }

  /** How many replicas each release should have, and which part of the calls it gets. */
  #decide({ served, leaving, serving, load, state, nowMs }: Turn): Decided {
    const { utilization } = this.#parts;
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
    const parties = served.map(({ target, replicas: own }, index) => ({
      target,
      needed: decisions[index]?.desired ?? 0,
      ready: own.filter(services.isServing).length,
    }));
    const divided = divide([...parties, { target: 0, needed, ready: leaving.length }]);
    return {
      needed,
      history: decisions[0]?.history,
      served: divided.slice(0, -1),
      left: divided.at(-1) ?? { weight: 0, wanted: 0 },
    };
  }

  /** Starts and ends what is missing or too much; returns why fewer were started than needed. */
  #act(turn: Turn, { served: divided, left }: Decided): string | undefined {
    const { route, served, leaving, serving, load, state } = turn;
    this.#scaler.drainLeaving(leaving, { route, wanted: left.wanted });
    let heldBack: string | undefined;
    for (const [index, one] of served.entries()) {
      const reason = this.#scaler.scale(one, {
        route,
        desired: divided[index]?.wanted ?? 0,
        starts: index === 0 ? state.starts : state.rollOutStarts,
        isAlone: serving.length === one.replicas.length && served.length === 1,
        isWaiting: load.waiting > 0,
      });
      heldBack = reason ?? heldBack;
    }
    const isOutage = served.some(({ choice }) => !choice.ok && choice.why === "outage");
    const isHeldUp =
      heldBack !== undefined &&
      !isOutage &&
      !served.some((one) => one.replicas.some(services.isStarting));
    // What leaves may hold the very capacity that its successor needs.
    if (isHeldUp)
      this.#scaler.drainLeaving(leaving, { route, wanted: left.wanted - 1, endsMax: 1 });
    return heldBack;
  }

  /** Tells the proxy which replicas take calls, and which part of them. */
  #publish(
    { route: { appId }, served, leaving }: Turn,
    given: { readonly decided: Decided; readonly failure: StartFailure | undefined },
  ): void {
    const { decided, failure } = given;
    const weights = new Map(
      served.map(({ release }, index) => [release.releaseId, decided.served[index]?.weight ?? 0]),
    );
    const shown = services.viewOf({
      replicas: this.#parts.fleet.ofApp(appId),
      weights,
      leaving,
      weightLeft: decided.left.weight,
      failure,
    });
    this.#parts.view.put(appId, shown);
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
      return { release, target, replicas: own, choice: this.#scaler.choose(route, release) };
    });
  }

  /**
   * Replicas of replaced releases that serve until their successors do; ends all others that belong
   * to no served release.
   */
  #leaving(route: SchedulerRoute, replicas: readonly Replica[]): Replica[] {
    const { clock, drain } = this.#parts;
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
      drain.end(replica, { reason, kind: "wanted" });
      return false;
    });
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
    const { clock, demand, drain, view } = this.#parts;
    const nowMs = clock.monotonicMs();
    const reason = endReasons[stop?.kind ?? "start_failed"];
    for (const replica of replicas) {
      const { releaseId } = replica.release;
      const isPromoted =
        route?.live?.releaseId === releaseId || route?.rollOut?.release.releaseId === releaseId;
      const isWanted = (nowMs < replica.heldUntilMs && !isPromoted) || replica.state === "draining";
      if (!isWanted) drain.end(replica, { reason, kind: "wanted" });
    }
    this.states.delete(appId);
    // Nothing is kept of an app that is gone, once nobody asks for it.
    const isOver =
      stop?.kind === "deleted" && replicas.length === 0 && demand.demandOf(appId).waiting === 0;
    view.put(appId, { ready: [], failure: isOver ? undefined : stop });
  }
}

/** Replicas that were started or adopted before a live change follow it. */
function takeSettings({ live, rollOut }: SchedulerRoute, replicas: readonly Replica[]): void {
  for (const replica of replicas) {
    const release = [live, rollOut?.release].find(
      (one) => one?.releaseId === replica.release.releaseId,
    );
    if (release) replica.settings = release.settings;
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
