// Decides how many replicas of an app's live release there should be, from its settings, its demand
// and earlier results. Pure. Scales up with the load at once; scales down only after the load was
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

/** Results of earlier decisions on an app. Times are by `Clock.monotonicMs`. */
export type LoadHistory = {
  /**
   * The recommended numbers of replicas (`count`) that may still matter, each with the time until
   * which it was recommended. The oldest is first, and each is higher than all later ones; the last
   * is the current one.
   */
  readonly recommendations: readonly { readonly untilMs: number; readonly count: number }[];
  /** Samples of the demand's totals, oldest first, for means over the evaluation interval. */
  readonly samples: readonly LoadSample[];
  /** The load before this time is unknown; minus infinity: all earlier load is known. */
  readonly knownFromMs: number;
  /** The number of replicas by the metric alone, without need, buffer and limits. */
  readonly byMetric: number;
  /** When the last decision was made. */
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

/** The shortest time over which a mean is taken if the load before it is unknown. */
const knownMsMin = 1000;

/**
 * The history of a new app: its running `replicas` count as wanted until now. An app without
 * replicas had no load.
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
  /** The load for metrics that drivers measure; null: it is not measured, or not yet. */
  readonly measured: MeasuredLoad | null;
  readonly history: LoadHistory;
  /** The longest cooldown of the releases that share the history. */
  readonly cooldownSecondsMax: number;
  readonly nowMs: number;
}): Decision {
  const { settings, demand, measured, nowMs } = situation;
  const { cooldownPeriodSeconds } = settings;
  const history = sampled(settings, demand, situation.history, nowMs);
  const calls = demand.running + demand.waiting;
  // A short call may start and end between two turns; it counts as running.
  const hadCall = demand.lastActiveAtMs !== null && demand.lastActiveAtMs >= history.lookedAtMs;
  const isActive = calls > 0 || hadCall;
  const byMetric = isActive ? replicasByMetric(settings, { demand, measured }, history, nowMs) : 0;
  // The need of the moment, a slot for each call, never waits for a mean.
  const need = isActive ? Math.max(1, quotient(calls, settings.replicaConcurrency)) : 0;
  const count = isActive ? Math.max(need, byMetric) + bufferOf(settings) : 0;
  const oldestMs = nowMs - situation.cooldownSecondsMax * 1000;
  const recommendations = remember(history.recommendations, { untilMs: nowMs, count }, oldestMs);
  // The first recommendation within the cooldown is the highest.
  const firstInCooldown = recommendations.find(
    ({ untilMs }) => untilMs > nowMs - cooldownPeriodSeconds * 1000,
  );
  const highest = firstInCooldown?.count ?? count;
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
    case "concurrency_utilization": {
      // So many calls ran at once in the mean. The target is in percent.
      const running = mean("runMs");
      const perReplica = replicaConcurrency * (scalingTarget / 100);
      return replicasFor(running, perReplica, history.byMetric);
    }
    case "requests_per_second": {
      const perSecond = mean("receivedTotal") * 1000;
      return replicasFor(perSecond, scalingTarget, history.byMetric);
    }
    case "cpu_utilization":
    case "memory_utilization":
      if (measured === null) return 0;
      // The target is in percent of what one replica may use.
      return replicasFor(measured.shares, scalingTarget / 100, measured.replicas);
  }
}

/**
 * Rounds up, but `current` replicas may carry a tenth more than their target: otherwise a mean near
 * the target would make a replica come and go by chance.
 */
function replicasFor(load: number, perReplica: number, current: number): number {
  const target = perReplica * current;
  const isNear = load > target && load <= target * (1 + tolerance);
  return isNear ? current : quotient(load, perReplica);
}

/**
 * How many replicas an active app gets on top; an idle app falls to its minimum. Only the metrics
 * that count calls have a buffer.
 */
function bufferOf({ scalingMetric, scalingBuffer }: ScalingSettings): number {
  const countsCalls =
    scalingMetric === "concurrency_utilization" || scalingMetric === "requests_per_second";
  return countsCalls ? scalingBuffer : 0;
}

/** Smaller differences come only from binary fractions. */
const epsilon = 1e-9;

/** Rounds up, but ignores excess from binary fractions (3 / (10 × 0.3) is 1, not 2). */
function quotient(load: number, perReplica: number): number {
  return Math.ceil(load / perReplica - epsilon);
}

/**
 * How much a total grew per millisecond, over the evaluation interval or, if that is shorter, over
 * the time for which the load is known.
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
  // In the known time before the first sample there was no load, so that time counts too.
  const spanMs = Math.max(nowMs - start.atMs, Math.min(intervalMs, knownMs));
  return (demand[total] - start[total]) / spanMs;
}

/**
 * Adds a sample when one is due. Drops samples from before the interval, except the latest of them,
 * with which the interval starts.
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
  // No sample is dropped if none is from before the interval (-1), or only the first one is (0).
  const startIndex = Math.max(
    0,
    samples.findLastIndex((sample) => sample.atMs <= fromMs),
  );
  const sample = { atMs: nowMs, receivedTotal: demand.receivedTotal, runMs: demand.runMs };
  const kept = samples.slice(startIndex);
  // Dropped samples are missing if a longer interval is set later.
  const knownFromMs = startIndex === 0 ? history.knownFromMs : (kept[0]?.atMs ?? nowMs);
  return { ...history, samples: [...kept, sample], knownFromMs };
}

/**
 * Adds the latest recommendation. The last of the earlier ones was valid until now. Drops
 * recommendations that are too old or not higher than the latest, since they cannot matter again.
 */
function remember(
  earlier: LoadHistory["recommendations"],
  latest: LoadHistory["recommendations"][number],
  oldestMs: number,
): LoadHistory["recommendations"] {
  const extended = earlier.map((entry, index) =>
    index === earlier.length - 1 ? { ...entry, untilMs: latest.untilMs } : entry,
  );
  return [
    ...extended.filter((entry) => entry.count > latest.count && entry.untilMs > oldestMs),
    latest,
  ];
}
