// Measures how much processor time and memory all replicas of an app use together, for apps that
// scale by one of the two. Measures periodically, and takes the mean over the app's evaluation
// interval. The sum over all replicas does not change when their number does.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { Fleet, Replica } from "./replica.ts";
import type { MeasuredUses, UsageReader, UsageSampler } from "./usage-sampler.ts";

/**
 * What all ready replicas of an app used from one measurement to the next. `cores` is null until a
 * replica was measured twice.
 */
type Period = {
  /** When the period ended. */
  readonly atMs: number;
  /** How long the period was. */
  readonly ms: number;
  readonly cores: number | null;
  readonly bytes: number;
};

/**
 * The number of an app's ready replicas, and the mean of their total usage, as a multiple of what
 * one replica may use.
 */
export type MeasuredLoad = { readonly replicas: number; readonly shares: number };

const nothingMeasured: MeasuredUses = { atMs: 0, uses: new Map() };

/** The interval of measurements; the shortest evaluation interval has two of them. */
export const measureEveryMs = 3_000;

export type UtilizationParts = {
  readonly fleet: Fleet;
  readonly routes: {
    byAppId(appId: AppId): { readonly live: { readonly settings: AppSettings } | null } | undefined;
  };
  readonly sampler: UsageSampler;
};

/** Measures usage; one instance per platform. */
export class Utilization {
  readonly #parts: UtilizationParts;
  readonly #reader: UsageReader;
  /**
   * Replicas that were ready at the previous measurement. Only their cores count at the next
   * measurement, since what a replica used until it was ready is no load.
   */
  #measured = new Set<ReplicaId>();
  /** The periods within each app's evaluation interval, oldest first. */
  #periods = new Map<AppId, readonly Period[]>();

  constructor(parts: UtilizationParts) {
    this.#parts = parts;
    this.#reader = parts.sampler.reader();
  }

  /** Measures the replicas of apps that scale by usage. Rejects when the driver does not answer. */
  async measure(): Promise<void> {
    const { fleet, routes } = this.#parts;
    const settingsOf = (appId: AppId): AppSettings | undefined =>
      routes.byAppId(appId)?.live?.settings;
    const toMeasure = fleet
      .all()
      .filter(({ state, appId }) => state === "ready" && isMeasured(settingsOf(appId)));
    const periods = new Map<AppId, readonly Period[]>();
    const measured = toMeasure.length === 0 ? nothingMeasured : await this.#reader.read();
    for (const [appId, replicas] of Map.groupBy(toMeasure, (replica) => replica.appId)) {
      // The route may have gone since `toMeasure`; then no earlier period counts.
      const intervalSeconds = settingsOf(appId)?.evaluationIntervalSeconds ?? 0;
      const fromMs = measured.atMs - intervalSeconds * 1000;
      const known = this.#periods.get(appId) ?? [];
      const earlier = known.filter((period) => period.atMs > fromMs);
      const period = this.#period(replicas, measured, earlier.at(-1)?.atMs);
      periods.set(appId, period === null ? earlier : [...earlier, period]);
    }
    this.#periods = periods;
    const replicaIds = toMeasure.map(({ replicaId }) => replicaId);
    this.#measured = new Set(replicaIds.filter((replicaId) => measured.uses.has(replicaId)));
  }

  /**
   * The period that ended with this measurement; `sinceMs` is when the previous period ended.
   * Replicas that could not be measured count as the mean of the others. Null: nothing was
   * measured.
   */
  #period(
    replicas: readonly Replica[],
    { atMs, uses }: MeasuredUses,
    sinceMs = atMs - measureEveryMs,
  ): Period | null {
    const bytes = replicas.flatMap(({ replicaId }) => uses.get(replicaId)?.memoryBytes ?? []);
    const cores = replicas
      .filter(({ replicaId }) => this.#measured.has(replicaId))
      .flatMap(({ replicaId }) => uses.get(replicaId)?.cpuCores ?? []);
    if (bytes.length === 0) return null;
    const total = replicas.length;
    return {
      atMs,
      ms: atMs - sinceMs,
      cores: cores.length === 0 ? null : mean(cores) * total,
      bytes: mean(bytes) * total,
    };
  }

  /**
   * The usage of the app that has these replicas. Null: nothing was measured yet, or not for long
   * enough, or the app does not scale by usage.
   */
  of(replicas: readonly Replica[], settings: AppSettings): MeasuredLoad | null {
    const ready = replicas.filter(({ state }) => state === "ready");
    const [first] = ready;
    if (first === undefined || !isMeasured(settings)) return null;
    let totalMs = 0;
    let weightedShares = 0;
    for (const period of this.#periods.get(first.appId) ?? []) {
      const share = shareOf(period, settings);
      if (share === null) continue;
      totalMs += period.ms;
      weightedShares += period.ms * share;
    }
    return totalMs === 0 ? null : { replicas: ready.length, shares: weightedShares / totalMs };
  }
}

/** The usage of a period as a multiple of what one replica may use; null: it is unknown. */
function shareOf({ cores, bytes }: Period, settings: AppSettings): number | null {
  // The setting is in gigabytes.
  if (settings.scalingMetric === "memory_utilization") return bytes / (settings.memory * 1e9);
  return cores === null ? null : cores / settings.cpu;
}

function isMeasured(settings: Pick<AppSettings, "scalingMetric"> | undefined): boolean {
  return (
    settings?.scalingMetric === "cpu_utilization" ||
    settings?.scalingMetric === "memory_utilization"
  );
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
