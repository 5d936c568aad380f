// Records how much apps use, for charts of the last month. A loop measures all apps once a minute,
// and no call waits for it. The number of stored rows does not grow with the replicas of an app.
import type { AppId, ReplicaId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Replica } from "./replica.ts";
import type { MeasuredUses, UsageReader, UsageSampler } from "./usage-sampler.ts";
import * as store from "./use-history-store.ts";

const measureEveryMs = 60_000;
/**
 * How many replicas of an app, the oldest first, have rows of their own. A chart with more lines
 * would be hard to read.
 */
const replicasMax = 20;
/** How many rows one statement writes. */
const samplesMax = 2_000;

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/**
 * The possible steps of a chart, in minutes. With the last step a month has fewer points than the
 * lowest resolution allows.
 */
const steps = [1, 5, 15, 30, 60, 180, 360];
/**
 * How many points a chart may have; at the resolution `high`, a chart has a point for each minute
 * of a day.
 */
const pointsMax = { medium: 130, high: 1_500 } as const;

export type UseHistoryParts = Pick<Foundation, "db" | "clock" | "log" | "lifecycle"> & {
  /** All replicas that have not stopped. */
  readonly replicas: () => Iterable<Pick<Replica, "replicaId" | "appId" | "state" | "beganAtMs">>;
  readonly sampler: UsageSampler;
  /** The counters of each app that has had calls. */
  readonly calls: () => Iterable<CountedCalls>;
};

/** Counters of an app's calls since the platform started. */
export type CountedCalls = {
  readonly appId: AppId;
  readonly receivedTotal: number;
  readonly failedTotal: number;
  /** How long the answered calls took. */
  readonly durations: { readonly buckets: Iterable<number> };
};

export type UseQuery = {
  /** Milliseconds since the epoch; null: an hour before `to`. */
  readonly from: number | null;
  /** Milliseconds since the epoch; null: now. */
  readonly to: number | null;
  /** The only replica whose points are wanted besides the points of the app; null: all replicas. */
  readonly replicaId: ReplicaId | null;
  readonly resolution: keyof typeof pointsMax;
};

/** A chart with a point for each step of `stepMs`, from `fromMs` until before `toMs`. */
export type UseChart = {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly points: readonly store.UsePoint[];
  /** How many replicas started in each step, by the start of the step. */
  readonly starts: ReadonlyMap<number, number>;
};

const nothing: MeasuredUses = { atMs: 0, uses: new Map() };

/** The history of what replicas use; one instance per platform. */
export class UseHistory {
  readonly #parts: UseHistoryParts;
  readonly #reader: UsageReader;
  /**
   * The counters of each app at its last stored measurement: received calls, failed calls, and then
   * the buckets of durations.
   */
  readonly #counted = new Map<AppId, readonly number[]>();

  constructor(parts: UseHistoryParts) {
    this.#parts = parts;
    this.#reader = parts.sampler.reader();
  }

  /** Begins to measure, until the platform ends. */
  start(): void {
    const { clock, log, lifecycle } = this.#parts;
    const loop = new Loop({
      name: "use of apps",
      turn: () => this.measure(),
      intervalMs: measureEveryMs,
      clock,
      log,
    });
    loop.startWithin(lifecycle);
  }

  /**
   * Measures all apps and stores the result. Rejects when the driver or the database does not
   * answer; the calls then count in the next measurement.
   */
  async measure(): Promise<void> {
    const { db, clock, replicas, calls } = this.#parts;
    const replicasByApp = Map.groupBy(replicas(), ({ appId }) => appId);
    const measured = replicasByApp.size === 0 ? nothing : await this.#reader.read();
    const totals = new Map<AppId, readonly number[]>();
    for (const { appId, receivedTotal, failedTotal, durations } of calls())
      totals.set(appId, [receivedTotal, failedTotal, ...durations.buckets]);
    const samples: store.UseSample[] = [];
    for (const appId of new Set([...replicasByApp.keys(), ...totals.keys()])) {
      const counts = countsSince(this.#counted.get(appId) ?? [], totals.get(appId) ?? []);
      const appReplicas = replicasByApp.get(appId) ?? [];
      if (appReplicas.length > 0 || counts.some((count) => count > 0))
        samples.push(...this.#samples(appId, appReplicas, { measured, counts }));
    }
    for (let index = 0; index < samples.length; index += samplesMax) {
      const batch = samples.slice(index, index + samplesMax);
      await store.addUses(db, batch, clock.now());
      for (const { appId } of batch) this.#counted.set(appId, totals.get(appId) ?? []);
    }
    for (const appId of this.#counted.keys()) if (!totals.has(appId)) this.#counted.delete(appId);
  }

  /**
   * The rows of an app: one for each of its oldest replicas, and one for the app. The row of the
   * app has all calls, but cores, memory and GPUs only of the replicas without a row. `counts` has
   * the order of `#counted`.
   */
  #samples(
    appId: AppId,
    replicas: readonly Pick<Replica, "replicaId" | "state" | "beganAtMs">[],
    measurement: { readonly measured: MeasuredUses; readonly counts: readonly number[] },
  ): store.UseSample[] {
    const noCounts = { running: 0, ready: 0, requests: 0, failures: 0, durations: null };
    const uses = replicas
      .toSorted((one, other) => one.beganAtMs - other.beganAtMs)
      .flatMap((replica) => {
        const use = useOf(replica, measurement.measured);
        return use === null ? [] : [{ appId, replicaId: replica.replicaId, ...noCounts, ...use }];
      });
    const others = uses.slice(replicasMax);
    const gpus = others.flatMap(({ gpu }) => gpu ?? []);
    const [requests = 0, failures = 0, ...durations] = measurement.counts;
    const app: store.UseSample = {
      appId,
      replicaId: "",
      requests,
      failures,
      durations: durations.some((count) => count > 0) ? durations : null,
      cores: sum(others.map(({ cores }) => cores)),
      memoryBytes: sum(others.map(({ memoryBytes }) => memoryBytes)),
      gpu: gpus.length === 0 ? null : sum(gpus) / gpus.length,
      running: replicas.length,
      ready: replicas.filter(({ state }) => state === "ready").length,
    };
    return [app, ...uses.slice(0, replicasMax)];
  }

  /** A chart of an app, within the last month. No locks. */
  async read(appId: AppId, query: UseQuery): Promise<UseChart> {
    const { db, clock } = this.#parts;
    const now = clock.now();
    const toMs = Math.min(query.to ?? now, now);
    const requestedFromMs = Math.max(query.from ?? toMs - hourMs, now - store.chartDays * dayMs);
    // Rows of minutes are kept for little more than a day, and rows of quarters for a month.
    const rows = requestedFromMs < now - dayMs ? "quarters" : "minutes";
    const stepMs = stepOf(Math.max(0, toMs - requestedFromMs), {
      // A step of the chart cannot be shorter than a step of the rows.
      minutesMin: rows === "quarters" ? 15 : 1,
      pointsMax: pointsMax[query.resolution],
    });
    // A chart begins at the start of a step.
    const fromMs = requestedFromMs - (requestedFromMs % stepMs);
    if (fromMs >= toMs) return { fromMs, toMs, stepMs, points: [], starts: new Map() };
    const { replicaId } = query;
    const period = { from: new Date(fromMs), to: new Date(toMs), stepMs };
    const points = await store.readUses(db, appId, { ...period, rows, replicaId });
    const starts = await store.readStarts(db, appId, period);
    return { fromMs, toMs, stepMs, points, starts };
  }
}

/**
 * What one replica uses; null: it was not measured. Its cores are the mean since the previous
 * measurement, or since its start if there is none.
 */
function useOf(
  { replicaId, beganAtMs }: Pick<Replica, "replicaId" | "beganAtMs">,
  { atMs, uses }: MeasuredUses,
): Pick<store.UseSample, "cores" | "memoryBytes" | "gpu"> | null {
  const used = uses.get(replicaId);
  if (used === undefined) return null;
  const seconds = (atMs - beganAtMs) / 1000;
  const sinceStart = seconds > 0 ? used.cpuSeconds / seconds : 0;
  return {
    cores: used.cpuCores ?? sinceStart,
    memoryBytes: used.memoryBytes,
    gpu: used.gpu?.utilization ?? null,
  };
}

/**
 * How much the counters have grown. When one counter is lower than before, all of them began anew
 * at zero.
 */
function countsSince(before: readonly number[], now: readonly number[]): readonly number[] {
  const counts = now.map((count, index) => count - (before[index] ?? 0));
  return counts.some((count) => count < 0) ? now : counts;
}

/** The shortest step of at least `minutesMin` that gives the span at most `pointsMax` points. */
function stepOf(
  spanMs: number,
  limits: { readonly minutesMin: number; readonly pointsMax: number },
): number {
  const hasFewPoints = (minutes: number): boolean =>
    spanMs / (minutes * minuteMs) <= limits.pointsMax;
  const step = steps.find((minutes) => minutes >= limits.minutesMin && hasFewPoints(minutes));
  return (step ?? Math.max(...steps)) * minuteMs;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
