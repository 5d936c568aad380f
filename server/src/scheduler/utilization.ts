// Usage of processor time and memory by an app's replicas together, for apps that scale by it:
// measured periodically, averaged over the app's evaluation interval. The sum of all
// replicas does not change when their number does.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { Fleet, Replica } from "./replica.ts";
import type { MeasuredUses, UsageReader, UsageSampler } from "./usage-sampler.ts";

/**
 * What all ready replicas of an app used from one measurement to the next; `cores` is null before
 * the second one.
 */
type Period = {
  readonly atMs: number;
  readonly ms: number;
  readonly cores: number | null;
  readonly bytes: number;
};

/**
 * An app's ready replicas: their number, and the mean of their usage together as shares of what one
 * may use.
 */
export type MeasuredLoad = { readonly replicas: number; readonly shares: number };

const nothing: MeasuredUses = { atMs: 0, uses: new Map() };

/** Interval between measurements of all replicas: two for the shortest evaluation interval. */
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
  /** Replicas of the previous measurement: what one used until it was ready is no load. */
  #measured = new Set<ReplicaId>();
  /** Within each app's evaluation interval, oldest first. */
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
    const wanted = fleet
      .all()
      .filter(({ state, appId }) => state === "ready" && isMeasured(settingsOf(appId)));
    const periods = new Map<AppId, readonly Period[]>();
    const measured = wanted.length === 0 ? nothing : await this.#reader.read();
    for (const [appId, replicas] of Map.groupBy(wanted, (replica) => replica.appId)) {
      const fromMs = measured.atMs - (settingsOf(appId)?.evaluationIntervalSeconds ?? 0) * 1000;
      const known = (this.#periods.get(appId) ?? []).filter((period) => period.atMs > fromMs);
      const period = this.#period(replicas, measured, known.at(-1)?.atMs);
      periods.set(appId, period === null ? known : [...known, period]);
    }
    this.#periods = periods;
    this.#measured = new Set(
      wanted.map(({ replicaId }) => replicaId).filter((replicaId) => measured.uses.has(replicaId)),
    );
  }

  /**
   * Replicas that could not be measured count as the mean of the others; null when nothing was
   * measured.
   */
  #period(
    replicas: readonly Replica[],
    { atMs, uses }: MeasuredUses,
    sinceMs = atMs - measureEveryMs,
  ): Period | null {
    const bytes = replicas.flatMap(({ replicaId }) => uses.get(replicaId)?.memoryBytes ?? []);
    const cores = replicas.flatMap(({ replicaId }) => {
      const isKnown = this.#measured.has(replicaId);
      return (isKnown ? uses.get(replicaId)?.cpuCores : null) ?? [];
    });
    if (bytes.length === 0) return null;
    const all = replicas.length;
    return {
      atMs,
      ms: atMs - sinceMs,
      cores: cores.length === 0 ? null : mean(cores) * all,
      bytes: mean(bytes) * all,
    };
  }

  /**
   * The usage of an app that has these replicas. Null: nothing was measured (long enough) yet, or
   * it does not scale by it.
   */
  of(replicas: readonly Replica[], settings: AppSettings): MeasuredLoad | null {
    const ready = replicas.filter(({ state }) => state === "ready");
    const [first] = ready;
    if (first === undefined || !isMeasured(settings)) return null;
    const shares = (this.#periods.get(first.appId) ?? []).flatMap(({ ms, cores, bytes }) => {
      if (settings.scalingMetric === "memory_utilization")
        return [{ ms, share: bytes / (settings.memory * 1e9) }];
      return cores === null ? [] : [{ ms, share: cores / settings.cpu }];
    });
    const ms = shares.reduce((sum, one) => sum + one.ms, 0);
    const used = shares.reduce((sum, one) => sum + one.ms * one.share, 0);
    return ms === 0 ? null : { replicas: ready.length, shares: used / ms };
  }
}

function isMeasured(settings: Pick<AppSettings, "scalingMetric"> | undefined): boolean {
  return (
    settings?.scalingMetric === "cpu_utilization" ||
    settings?.scalingMetric === "memory_utilization"
  );
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}
