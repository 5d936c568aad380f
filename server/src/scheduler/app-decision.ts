// Decides one turn of an app: which replicas end, how many replicas each release should have, which
// share of the calls each release gets, and what the next turn has to know. Pure:
// `app-reconciler.ts` reads the app, carries out the decision and publishes it.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppStop } from "./allowance.ts";
import type { AppState, SchedulerRoute, ServedRelease } from "./app-state.ts";
import { decide, newHistory, type Decision } from "./decide.ts";
import type { Demand } from "./demand.ts";
import { replacedReason } from "./plan.ts";
import type { Replica } from "./replica.ts";
import type { ComputeChoice } from "./replica-spec.ts";
import type { StartFailure } from "./replica-view.ts";
import { currentStarts, isOf, isServing } from "./served-releases.ts";
import { divide, type Division, type Party } from "./shares.ts";
import { shownFailure, type StartRecord } from "./start-record.ts";
import type { MeasuredLoad } from "./utilization.ts";

/** Everything about an app that one turn depends on. */
export type AppReading = {
  /** Undefined: the app was deleted. */
  readonly route: SchedulerRoute | undefined;
  /** Why the app may have no replicas; undefined: it may have some. */
  readonly stop: AppStop | undefined;
  /** All replicas that have not stopped, in the order of their starts. */
  readonly replicas: readonly Replica[];
  readonly load: Demand;
  /** The state after the app's last turn; undefined: it has none. */
  readonly state: AppState | undefined;
  /** Which compute type a new replica of the release would get, or why there can be none. */
  readonly choiceOf: (route: SchedulerRoute, release: ServedRelease) => ComputeChoice;
  /** What these replicas use; see `Utilization`. */
  readonly useOf: (replicas: readonly Replica[], settings: AppSettings) => MeasuredLoad | null;
  /** The time of the turn, by `Clock.monotonicMs`. */
  readonly nowMs: number;
};

/** A release that takes calls, with the replicas and the share of the calls that it should have. */
export type ServedDecision = Division & {
  readonly release: ServedRelease;
  /** The share of the calls that it should get once it has enough replicas, from 0 to 1. */
  readonly target: number;
  readonly replicas: readonly Replica[];
  readonly choice: ComputeChoice;
  /** The release's recent failed starts. */
  readonly starts: StartRecord | undefined;
};

/** The state without `heldBack`, which is known only when the decision is carried out. */
type DecidedState = Omit<AppState, "heldBack">;

/** What a turn does and publishes. */
export type AppDecision = {
  /** Replicas that end at once, and why. */
  readonly ends: readonly { readonly replica: Replica; readonly reason: string }[];
  /** The live release first. Empty: no calls are taken, or no replica is needed. */
  readonly served: readonly ServedDecision[];
  /** The replicas of replaced releases, which serve until their successors can. */
  readonly leaving: Division & { readonly replicas: readonly Replica[] };
  /** Why calls would wait in vain while no replica takes them; undefined: waiting may help. */
  readonly failure: StartFailure | undefined;
  /** What the next turn has to know; undefined: nothing. */
  readonly state: DecidedState | undefined;
};

/** A leaving replica is kept this much longer than the start of its successor may take. */
const leaveSlackMs = 60_000;

/**
 * How long calls wait for a backend that does not answer. An engine that is being restarted answers
 * again within this time.
 */
const outagePatienceMs = 10_000;

/** Why replicas end when their app takes no calls. */
const endReasons: Readonly<Record<Refusal["kind"] | "no_release", string>> = {
  no_release: "Its release does not accept calls.",
  budget_reached: "A budget is used up.",
  app_stopped: "The app was stopped.",
  deleted: "The app was deleted.",
};

const noShare: Division = { weight: 0, wanted: 0 };
const nothingLeaving: AppDecision["leaving"] = { ...noShare, replicas: [] };

/** Decides one turn. Changes neither the replicas nor the state. */
export function decideApp(reading: AppReading): AppDecision {
  const { route } = reading;
  const refusal = refusalOf(reading);
  if (route === undefined || route.live === null || refusal !== undefined)
    return withoutCalls(reading, refusal);
  return withCalls(reading, route, route.live);
}

type Refusal = StartFailure & { readonly kind: "deleted" | AppStop["code"] };

/** Why the app takes no calls, whatever its releases are; undefined: nothing stops it. */
function refusalOf({ route, stop }: AppReading): Refusal | undefined {
  if (route === undefined) return { kind: "deleted", reason: endReasons.deleted, retryAtMs: null };
  return stop === undefined ? undefined : { kind: stop.code, reason: stop.reason, retryAtMs: null };
}

/**
 * Ends all replicas but those that are held for a trial or a promotion. Used when no release takes
 * calls, or the app is stopped or deleted.
 */
function withoutCalls(
  { route, replicas, load, nowMs }: AppReading,
  refusal: Refusal | undefined,
): AppDecision {
  const servedIds = [route?.live?.releaseId, route?.rollOut?.release.releaseId];
  const ending = replicas.filter(({ state, heldUntilMs, release }) => {
    // The hold of a replica ends when its release is served.
    const isHeld = nowMs < heldUntilMs && !servedIds.includes(release.releaseId);
    return state !== "draining" && !isHeld;
  });
  const reason = endReasons[refusal?.kind ?? "no_release"];
  // A deleted app is forgotten once it has no replicas and no waiting calls.
  const isForgotten = route === undefined && replicas.length === 0 && load.waiting === 0;
  return {
    ends: ending.map((replica) => ({ replica, reason })),
    served: [],
    leaving: nothingLeaving,
    failure: isForgotten ? undefined : refusal,
    state: undefined,
  };
}

/** Decides the turn of an app that takes calls. */
function withCalls(reading: AppReading, route: SchedulerRoute, live: ServedRelease): AppDecision {
  const { replicas, load, choiceOf, nowMs } = reading;
  const served = targetsOf(route, live).map(([release, target]) => ({
    release,
    target,
    replicas: replicas.filter((replica) => isOf(replica, release)),
    choice: choiceOf(route, release),
  }));
  // The live release comes first.
  const choiceFailure = failureOf(served[0]?.choice, nowMs);
  const isAsleep =
    replicas.length === 0 &&
    load.running + load.waiting === 0 &&
    live.settings.minReplicaCount === 0;
  if (isAsleep && reading.state === undefined)
    return {
      ends: [],
      served: [],
      leaving: nothingLeaving,
      failure: choiceFailure,
      state: undefined,
    };
  const { leaving, ends } = unservedReplicas(reading, route);
  const serving = [...served.flatMap((entry) => entry.replicas), ...leaving];
  const state = stateNow(reading, { route, live, serving });
  const { starts, rollOutStarts } = state;
  const decisions = decideEach(reading, { served, serving, history: state.history });
  const needed = decisions.map(({ desired }) => desired);
  // The last division is that of the leaving replicas.
  const divisions = divide(partiesOf(served, leaving, needed));
  const hasNoFailedStarts = starts === undefined && rollOutStarts === undefined;
  // An app that sleeps, and whose starts have not failed, leaves the next turn nothing to know.
  const isForgotten = isAsleep && needed[0] === 0 && hasNoFailedStarts;
  const history = decisions[0]?.history ?? state.history;
  return {
    ends,
    served: served.map((entry, index) => ({
      ...entry,
      ...(divisions[index] ?? noShare),
      // After the live release there is only that of a roll-out.
      starts: index === 0 ? starts : rollOutStarts,
    })),
    leaving: { ...(divisions.at(-1) ?? noShare), replicas: leaving },
    failure: choiceFailure ?? shownFailure(starts, nowMs),
    state: isForgotten ? undefined : { ...state, history },
  };
}

/** The releases that should take calls, each with its share from 0 to 1; the live one first. */
function targetsOf(
  { rollOut }: SchedulerRoute,
  live: ServedRelease,
): (readonly [ServedRelease, number])[] {
  if (!rollOut || rollOut.share === 0) return [[live, 1]];
  // The roll-out has its share in percent.
  const share = rollOut.share / 100;
  return [
    [live, 1 - share],
    [rollOut.release, share],
  ];
}

/**
 * Which replicas of releases that are not served stay until their successors can serve, and which
 * end. A replica that is held for a trial or a promotion is in neither list.
 */
function unservedReplicas(
  { replicas, nowMs }: AppReading,
  { live, rollOut, refusedReleaseId }: SchedulerRoute,
): { readonly leaving: readonly Replica[]; readonly ends: AppDecision["ends"] } {
  const keptMs = (live?.settings.deploymentInitializationTimeout ?? 0) * 1000 + leaveSlackMs;
  const servedIds = [live?.releaseId, rollOut?.release.releaseId];
  const others = replicas.filter(
    (replica) =>
      isStartingOrReady(replica) &&
      nowMs >= replica.heldUntilMs &&
      !servedIds.includes(replica.release.releaseId),
  );
  const stays = (replica: Replica): boolean => {
    // A replica without `leavingSinceMs` begins to leave in this turn.
    const leavingSinceMs = replica.leavingSinceMs ?? nowMs;
    const isInTime = nowMs - leavingSinceMs < keptMs;
    const isRefused = replica.release.releaseId === refusedReleaseId;
    return isServing(replica) && !replica.isTrial && !isRefused && isInTime;
  };
  const ending = others.filter((replica) => !stays(replica));
  return {
    leaving: others.filter(stays),
    ends: ending.map((replica) => ({
      replica,
      reason: replica.isTrial ? onlyTestedReason : replacedReason,
    })),
  };
}

const onlyTestedReason = "Its release was only tested and never received calls.";

/** The app's state in this turn: the state after its last turn, without outdated failures. */
function stateNow(
  { state, nowMs }: AppReading,
  context: {
    readonly route: SchedulerRoute;
    readonly live: ServedRelease;
    readonly serving: readonly Replica[];
  },
): DecidedState {
  const { route, live, serving } = context;
  const rollOutStarts = state?.rollOutStarts;
  // If the release of the roll-out has become the live one, its failed starts are now those of the
  // live release.
  const isPromoted = rollOutStarts?.releaseId === live.releaseId;
  const starts = isPromoted ? rollOutStarts : state?.starts;
  const rollOutReleaseId = route.rollOut?.release.releaseId;
  return {
    history: state?.history ?? newHistory(serving.filter(isStartingOrReady).length, nowMs),
    starts: currentStarts(starts, live.releaseId, serving, nowMs),
    rollOutStarts: currentStarts(rollOutStarts, rollOutReleaseId, serving, nowMs),
  };
}

/** How many replicas each served release would need to serve all calls alone. */
function decideEach(
  { load, useOf, nowMs }: AppReading,
  context: {
    readonly served: readonly Pick<ServedDecision, "release">[];
    readonly serving: readonly Replica[];
    readonly history: AppState["history"];
  },
): Decision[] {
  const { served, serving, history } = context;
  const cooldownSecondsMax = Math.max(
    ...served.map(({ release }) => release.settings.cooldownPeriodSeconds),
  );
  return served.map(({ release: { settings } }) => {
    const measured = useOf(serving, settings);
    return decide({ settings, demand: load, measured, history, cooldownSecondsMax, nowMs });
  });
}

/** The parties that share the calls: each served release, then all leaving replicas as one. */
function partiesOf(
  served: readonly Pick<ServedDecision, "target" | "replicas">[],
  leaving: readonly Replica[],
  needed: readonly number[],
): Party[] {
  const parties = served.map(({ target, replicas }, index) => ({
    target,
    needed: needed[index] ?? 0,
    ready: replicas.filter(isServing).length,
  }));
  // The leaving replicas stand in for the live release, which comes first, so its need is theirs.
  return [...parties, { target: 0, needed: needed[0] ?? 0, ready: leaving.length }];
}

/** Why calls would wait in vain for the release; undefined: it may soon get a replica. */
function failureOf(choice: ComputeChoice | undefined, nowMs: number): StartFailure | undefined {
  // In a full pool, another replica may end at any time.
  if (choice === undefined || choice.ok || choice.why === "full") return undefined;
  const { reason } = choice;
  if (choice.why !== "outage") return { kind: "no_capacity", reason, retryAtMs: null };
  const { sinceMs } = choice;
  // Calls wait through the first period. From then on, the next try is at the end of each period.
  const periods = Math.floor((nowMs - sinceMs) / outagePatienceMs);
  if (periods === 0) return undefined;
  return { kind: "outage", reason, retryAtMs: sinceMs + (periods + 1) * outagePatienceMs };
}

function isStartingOrReady({ state }: Replica): boolean {
  return state === "starting" || state === "ready";
}
