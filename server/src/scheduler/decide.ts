// Decides how many replicas of an app's live release there should be: pure, from its settings, its demand and earlier
// results. Scales up with the load at once; scales down only after the load was lower for the whole cooldown.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Demand } from "./demand.ts";
import type { MeasuredLoad } from "./utilization.ts";

/** The settings that scaling depends on. */
export type ScalingSettings = Pick<
  AppSettings,
  | "minReplicaCount"
  | "maxReplicaCount"
  | "cooldownPeriodSeconds"
  | "replicaConcurrency"
  | "scalingMetric"
  | "scalingTarget"
  | "scalingBuffer"
  | "evaluationIntervalSeconds"
>;

/** Results of earlier decisions on an app. Times in `Clock.monotonicMs`. */
export type LoadHistory = {
  /** Recommendations that may still matter, oldest first, each higher than all later ones; the last is the current one. */
  readonly recommendations: readonly { readonly untilMs: number; readonly count: number }[];
  /** Samples of the number of received calls, oldest first; kept for `requests_per_second` only. */
  readonly received: readonly { readonly atMs: number; readonly total: number }[];
  readonly lookedAtMs: number;
};

export type Decision = {
  /** Target number of replicas of the live release, from minReplicaCount to maxReplicaCount. */
  readonly desired: number;
  readonly history: LoadHistory;
};

/** The default of the Kubernetes horizontal autoscaler. */
const tolerance = 0.1;
/** Minimum time between samples of received calls; bounds the history to 600 for the longest interval. */
const sampleGapMs = 500;

/** The history of a new app: its running `replicas` count as wanted until now. */
export function newHistory(replicas: number, nowMs: number): LoadHistory {
  return { recommendations: [{ untilMs: nowMs, count: replicas }], received: [], lookedAtMs: nowMs };
}

/** Decides, and returns the history for the next call. */
export function decide(given: {
  readonly settings: ScalingSettings;
  readonly demand: Demand;
  /** For metrics measured by drivers; null: not measured (yet). */
  readonly measured: MeasuredLoad | null;
  readonly history: LoadHistory;
  readonly nowMs: number;
}): Decision {
  const { settings, demand, measured, nowMs } = given;
  const history = { ...given.history, received: sampled(settings, demand, given.history.received, nowMs) };
  const count = recommend(settings, { demand, measured }, history, nowMs);
  const oldestMs = nowMs - settings.cooldownPeriodSeconds * 1000;
  const recommendations = remember(history.recommendations, { untilMs: nowMs, count }, oldestMs);
  const highest = recommendations[0]?.count ?? count;
  return {
    desired: Math.min(Math.max(highest, settings.minReplicaCount), settings.maxReplicaCount),
    history: { recommendations, received: history.received, lookedAtMs: nowMs },
  };
}

/** Replicas needed for the current load, including the buffer, before the limits. */
function recommend(
  settings: ScalingSettings,
  { demand, measured }: { readonly demand: Demand; readonly measured: MeasuredLoad | null },
  history: LoadHistory,
  nowMs: number,
): number {
  const calls = demand.running + demand.waiting;
  // A short call may start and end between two turns; it counts as running.
  const isActive = calls > 0 || (demand.lastActiveAtMs !== null && demand.lastActiveAtMs >= history.lookedAtMs);
  switch (settings.scalingMetric) {
    case "concurrency_utilization": {
      const callsPerReplica = settings.replicaConcurrency * (settings.scalingTarget / 100);
      return withBuffer(settings, quotient(isActive ? Math.max(1, calls) : 0, callsPerReplica));
    }
    case "requests_per_second": {
      const need = quotient(callsPerSecond(settings, demand, history, nowMs), settings.scalingTarget);
      return withBuffer(settings, Math.max(need, isActive ? 1 : 0));
    }
    case "cpu_utilization":
    case "memory_utilization":
      // The usage of an app without calls justifies no more than its minimum.
      return isActive ? Math.max(1, measured === null ? 0 : byUtilization(measured, settings.scalingTarget / 100)) : 0;
  }
}

/** The number of replicas that brings the usage of each to the target; the current number while usage is near the target. */
function byUtilization({ replicas, shares }: MeasuredLoad, target: number): number {
  const isNear = Math.abs(shares / (replicas * target) - 1) <= tolerance;
  return isNear ? replicas : quotient(shares, target);
}

/** Adds the buffer to a need above zero only: an idle app falls to its minimum. */
function withBuffer(settings: ScalingSettings, need: number): number {
  return need > 0 ? need + settings.scalingBuffer : 0;
}

/** Rounds up, but ignores excess from binary fractions (3 / (10 × 0.3) is 1, not 2). */
function quotient(load: number, perReplica: number): number {
  return Math.ceil(load / perReplica - 1e-9);
}

/** Mean over the evaluation interval; at first, missing time counts as time without calls. */
function callsPerSecond(settings: ScalingSettings, demand: Demand, history: LoadHistory, nowMs: number): number {
  const fromMs = nowMs - settings.evaluationIntervalSeconds * 1000;
  const start = history.received.findLast((sample) => sample.atMs <= fromMs) ?? history.received[0];
  return start === undefined ? 0 : (demand.receivedTotal - start.total) / settings.evaluationIntervalSeconds;
}

/** Adds a sample when one is due and drops those from before the interval, except the one that starts it. */
function sampled(
  settings: ScalingSettings,
  demand: Demand,
  received: LoadHistory["received"],
  nowMs: number,
): LoadHistory["received"] {
  if (settings.scalingMetric !== "requests_per_second") return [];
  const latest = received.at(-1);
  if (latest !== undefined && nowMs - latest.atMs < sampleGapMs) return received;
  const fromMs = nowMs - settings.evaluationIntervalSeconds * 1000;
  const begin = Math.max(
    0,
    received.findLastIndex((sample) => sample.atMs <= fromMs),
  );
  return [...received.slice(begin), { atMs: nowMs, total: demand.receivedTotal }];
}

/** Adds the latest recommendation, valid until now; drops lower ones before a higher one, since they cannot matter again. */
function remember(
  before: LoadHistory["recommendations"],
  latest: LoadHistory["recommendations"][number],
  oldestMs: number,
): LoadHistory["recommendations"] {
  const held = before.map((entry, index) =>
    index === before.length - 1 ? { ...entry, untilMs: latest.untilMs } : entry,
  );
  return [...held.filter((entry) => entry.count > latest.count && entry.untilMs > oldestMs), latest];
}
