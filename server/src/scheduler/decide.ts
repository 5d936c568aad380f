// Decides how many replicas of an app's live release there should be: pure, from its settings, its
// demand and earlier results. Scales up with the load at once; scales down only after the load was
// lower for the whole cooldown.
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
  /**
   * Recommendations that may still matter, oldest first, each higher than all later ones; the last
   * is the current one.
   */
  readonly recommendations: readonly { readonly untilMs: number; readonly count: number }[];
  /** Samples of the demand's totals, oldest first, for means over the evaluation interval. */
  readonly samples: readonly LoadSample[];
  /** What the load was before is unknown; minus infinity: there was none. */
  readonly knownFromMs: number;
  /** What the metric alone asked for, without need, buffer and limits. */
  readonly byMetric: number;
  readonly lookedAtMs: number;
};

type LoadSample = Pick<Demand, "receivedTotal" | "runMs"> & { readonly atMs: number };

export type Decision = {
  /** Target number of replicas of the live release, from minReplicaCount to maxReplicaCount. */
  readonly desired: number;
  readonly history: LoadHistory;
};

/**
 * By how much a metric may exceed its target without effect: the default of the Kubernetes
 * horizontal autoscaler.
 */
const tolerance = 0.1;
/** Minimum time between samples; bounds the history to 600 for the longest interval. */
const sampleGapMs = 500;

/** The shortest time that a mean is taken of where the load before is unknown. */
const knownMsMin = 1000;

/**
 * The history of a new app: its running `replicas` count as wanted until now; one without any had
 * no load.
 */
export function newHistory(replicas: number, nowMs: number): LoadHistory {
  const knownFromMs = replicas === 0 ? Number.NEGATIVE_INFINITY : nowMs;
  const recommendations = [{ untilMs: nowMs, count: replicas }];
  return { recommendations, samples: [], knownFromMs, byMetric: 0, lookedAtMs: nowMs };
}

/** Decides, and returns the history for the next call. */
export function decide(situation: {
  readonly settings: ScalingSettings;
  readonly demand: Demand;
  /** For metrics measured by drivers; null: not measured (yet). */
  readonly measured: MeasuredLoad | null;
  readonly history: LoadHistory;
  /** The history serves releases with a cooldown of up to this; absent: only this one. */
  readonly cooldownSecondsMax?: number;
  readonly nowMs: number;
}): Decision {
  const { settings, demand, measured, nowMs } = situation;
  const { cooldownPeriodSeconds } = settings;
  const history = sampled(settings, demand, situation.history, nowMs);
  const calls = demand.running + demand.waiting;
  // A short call may start and end between two turns; it counts as running.
  const isActive =
    calls > 0 || (demand.lastActiveAtMs !== null && demand.lastActiveAtMs >= history.lookedAtMs);
  const byMetric = isActive ? replicasByMetric(settings, { demand, measured }, history, nowMs) : 0;
  // The need of the moment, a slot for each call, never waits for a mean.
  const need = isActive ? Math.max(1, quotient(calls, settings.replicaConcurrency)) : 0;
  const count = isActive ? Math.max(need, byMetric) + bufferOf(settings) : 0;
  const oldestMs = nowMs - (situation.cooldownSecondsMax ?? cooldownPeriodSeconds) * 1000;
  const recommendations = remember(history.recommendations, { untilMs: nowMs, count }, oldestMs);
  const held = recommendations.find(
    ({ untilMs }) => untilMs > nowMs - cooldownPeriodSeconds * 1000,
  );
  const highest = held?.count ?? count;
  return {
    desired: Math.min(Math.max(highest, settings.minReplicaCount), settings.maxReplicaCount),
    history: { ...history, recommendations, byMetric, lookedAtMs: nowMs },
  };
}

/** Replicas that bring the metric, a mean over the evaluation interval, to its target. */
function replicasByMetric(
  settings: ScalingSettings,
  { demand, measured }: { readonly demand: Demand; readonly measured: MeasuredLoad | null },
  history: LoadHistory,
  nowMs: number,
): number {
  const { replicaConcurrency, scalingMetric, scalingTarget } = settings;
  const mean = (total: "receivedTotal" | "runMs"): number =>
    meanOf(total, { settings, demand, history, nowMs });
  switch (scalingMetric) {
    case "concurrency_utilization":
      return replicasFor(
        mean("runMs"),
        replicaConcurrency * (scalingTarget / 100),
        history.byMetric,
      );
    case "requests_per_second":
      return replicasFor(mean("receivedTotal") * 1000, scalingTarget, history.byMetric);
    case "cpu_utilization":
    case "memory_utilization":
      return measured === null
        ? 0
        : replicasFor(measured.shares, scalingTarget / 100, measured.replicas);
  }
}

/**
 * Rounds up, but `current` replicas may carry a tenth more than their target: a mean near it would
 * come and go by chance.
 */
function replicasFor(load: number, perReplica: number, current: number): number {
  const isNear = load > perReplica * current && load <= perReplica * current * (1 + tolerance);
  return isNear ? current : quotient(load, perReplica);
}

/** Replicas on top of the recommendation for an active app; an idle one falls to its minimum. */
function bufferOf({ scalingMetric, scalingBuffer }: ScalingSettings): number {
  return scalingMetric === "concurrency_utilization" || scalingMetric === "requests_per_second"
    ? scalingBuffer
    : 0;
}

/** Rounds up, but ignores excess from binary fractions (3 / (10 × 0.3) is 1, not 2). */
function quotient(load: number, perReplica: number): number {
  return Math.ceil(load / perReplica - 1e-9);
}

/**
 * How much a total grew per millisecond of the evaluation interval; before the load is known, of
 * the time since then.
 */
function meanOf(
  total: "receivedTotal" | "runMs",
  situation: {
    readonly settings: ScalingSettings;
    readonly demand: Demand;
    readonly history: LoadHistory;
    readonly nowMs: number;
  },
): number {
  const { settings, demand, history, nowMs } = situation;
  const [start] = history.samples;
  if (start === undefined) return 0;
  const intervalMs = settings.evaluationIntervalSeconds * 1000;
  const knownMs = Math.max(knownMsMin, nowMs - history.knownFromMs);
  const spanMs = Math.max(nowMs - start.atMs, Math.min(intervalMs, knownMs));
  return (demand[total] - start[total]) / spanMs;
}

/**
 * Adds a sample when one is due and drops those from before the interval, except the one that
 * starts it.
 */
function sampled(
  settings: ScalingSettings,
  demand: Demand,
  history: LoadHistory,
  nowMs: number,
): LoadHistory {
  const { samples } = history;
  const latest = samples.at(-1);
  if (latest !== undefined && nowMs - latest.atMs < sampleGapMs) return history;
  const fromMs = nowMs - settings.evaluationIntervalSeconds * 1000;
  const begin = samples.findLastIndex((sample) => sample.atMs <= fromMs);
  const sample = { atMs: nowMs, receivedTotal: demand.receivedTotal, runMs: demand.runMs };
  return {
    ...history,
    samples: [...samples.slice(Math.max(0, begin)), sample],
    // A longer interval that is set later finds no load from before.
    knownFromMs: begin > 0 ? (samples[begin]?.atMs ?? nowMs) : history.knownFromMs,
  };
}

/**
 * Adds the latest recommendation, valid until now; drops lower ones before a higher one, since they
 * cannot matter again.
 */
function remember(
  before: LoadHistory["recommendations"],
  latest: LoadHistory["recommendations"][number],
  oldestMs: number,
): LoadHistory["recommendations"] {
  const held = before.map((entry, index) =>
    index === before.length - 1 ? { ...entry, untilMs: latest.untilMs } : entry,
  );
  return [
    ...held.filter((entry) => entry.count > latest.count && entry.untilMs > oldestMs),
    latest,
  ];
}
