// What apps used over the last month, for charts: measured once a minute for all apps together,
// away from calls, and kept in a number of rows that does not grow with the replicas of an app.
import type { AppId, ReplicaId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { daysAgo, startRetention } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Replica } from "./replica.ts";
import type { MeasuredUses, UsageReader, UsageSampler } from "./usage-sampler.ts";
import * as store from "./use-history-store.ts";

const measureEveryMs = 60_000;
/**
 * Replicas of an app with rows of their own, those that began first: more lines than a chart shows.
 */
const replicasMax = 20;
/** Rows of one statement. */
const samplesMax = 2_000;

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const keptDays = 30;
/**
 * Steps of charts in minutes; the last one gives a month fewer points than any resolution allows.
 */
const steps = [1, 5, 15, 30, 60, 180, 360];
/** Points of a chart; `high`: a whole day by the minute. */
const pointsMax = { medium: 130, high: 1_500 } as const;

export type UseHistoryParts = Pick<Foundation, "db" | "clock" | "log" | "lifecycle"> & {
  readonly replicas: () => Iterable<Pick<Replica, "replicaId" | "appId" | "state" | "beganAtMs">>;
  readonly sampler: UsageSampler;
  readonly calls: () => Iterable<CountedCalls>;
};

/** What is counted of the calls of an app since the platform started. */
export type CountedCalls = {
  readonly appId: AppId;
  readonly receivedTotal: number;
  readonly failedTotal: number;
  /** How long the answered calls took. */
  readonly durations: { readonly buckets: Iterable<number> };
};

export type UseQuery = {
  /** Milliseconds since the epoch; null: an hour before `to`, and now. */
  readonly from: number | null;
  readonly to: number | null;
  readonly replicaId: ReplicaId | null;
  readonly resolution: keyof typeof pointsMax;
};

/** A chart: its points begin at `fromMs`, one each `stepMs`, and end before `toMs`. */
export type UseChart = {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly points: readonly store.UsePoint[];
  /** How many replicas started, by the start of the step. */
  readonly starts: ReadonlyMap<number, number>;
};

const nothing: MeasuredUses = { atMs: 0, uses: new Map() };

/** One instance per platform. */
export class UseHistory {
  readonly #parts: UseHistoryParts;
  readonly #reader: UsageReader;
  /** Received calls, failed ones, and those of each bucket. */
  readonly #counted = new Map<AppId, readonly number[]>();

  constructor(parts: UseHistoryParts) {
    this.#parts = parts;
    this.#reader = parts.sampler.reader();
  }

  /** Measures and removes what is too old, until the platform ends. */
  start(): void {
    const { db, clock, log, lifecycle } = this.#parts;
    const loop = new Loop({
      name: "use of apps",
      turn: () => this.measure(),
      intervalMs: measureEveryMs,
      clock,
      log,
    });
    loop.startWithin(lifecycle);
    const removal = () => store.useRemovalSteps(db, (days) => daysAgo(clock, days));
    startRetention({ name: "retention of uses", steps: removal, clock, log, lifecycle });
  }

  /**
   * One measurement of all apps. Rejects when the driver or the database does not answer; calls
   * then count in the next one.
   */
  async measure(): Promise<void> {
    const { db, clock, replicas, calls } = this.#parts;
    const ofApps = Map.groupBy(replicas(), ({ appId }) => appId);
    const measured = ofApps.size === 0 ? nothing : await this.#reader.read();
    const totals = new Map(
      Array.from(
        calls(),
        (one) =>
          [one.appId, [one.receivedTotal, one.failedTotal, ...one.durations.buckets]] as const,
      ),
    );
    const samples: store.UseSample[] = [];
    for (const appId of new Set([...ofApps.keys(), ...totals.keys()])) {
      const counts = countsSince(this.#counted.get(appId) ?? [], totals.get(appId) ?? []);
      const ofApp = ofApps.get(appId) ?? [];
      if (ofApp.length > 0 || counts.some((count) => count > 0))
        samples.push(...this.#samples(appId, ofApp, { measured, counts }));
    }
    for (let at = 0; at < samples.length; at += samplesMax) {
      const some = samples.slice(at, at + samplesMax);
      await store.addUses(db, some, clock.now());
      for (const { appId } of some) this.#counted.set(appId, totals.get(appId) ?? []);
    }
    for (const appId of this.#counted.keys()) if (!totals.has(appId)) this.#counted.delete(appId);
  }

  #samples(
    appId: AppId,
    replicas: readonly Pick<Replica, "replicaId" | "state" | "beganAtMs">[],
    measurement: { readonly measured: MeasuredUses; readonly counts: readonly number[] },
  ): store.UseSample[] {
    const nothing = { running: 0, ready: 0, requests: 0, failures: 0, durations: null };
    const uses = replicas
      .toSorted((one, other) => one.beganAtMs - other.beganAtMs)
      .flatMap((replica) => {
        const use = useOf(replica, measurement.measured);
        return use === null ? [] : [{ appId, replicaId: replica.replicaId, ...nothing, ...use }];
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
    const wantedMs = Math.max(query.from ?? toMs - hourMs, now - keptDays * dayMs);
    const rows = wantedMs < now - dayMs ? "quarters" : "minutes";
    const stepMs = stepOf(Math.max(0, toMs - wantedMs), {
      min: rows === "quarters" ? 15 : 1,
      max: pointsMax[query.resolution],
    });
    const fromMs = wantedMs - (wantedMs % stepMs);
    const { replicaId } = query;
    const wanted = { from: new Date(fromMs), to: new Date(toMs), stepMs };
    if (fromMs >= toMs) return { fromMs, toMs, stepMs, points: [], starts: new Map() };
    const points = await store.readUses(db, appId, { ...wanted, rows, replicaId });
    return { fromMs, toMs, stepMs, points, starts: await store.readStarts(db, appId, wanted) };
  }
}

/** Cores: the mean since the previous measurement, for a new replica since its start. */
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

/** Counters that began anew are lower than before. */
function countsSince(before: readonly number[], now: readonly number[]): readonly number[] {
  const counts = now.map((count, index) => count - (before[index] ?? 0));
  return counts.some((count) => count < 0) ? now : counts;
}

/** The finest step that gives no more points. */
function stepOf(
  spanMs: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  const step = steps.find((minutes) => minutes >= min && spanMs / (minutes * minuteMs) <= max);
  return (step ?? Math.max(...steps)) * minuteMs;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
