// Usage of processor time and memory by an app's replicas together, for apps that scale by it:
// measured periodically by the driver, averaged over the app's evaluation interval. The sum of all
// replicas does not change when their number does.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver, ReplicaUsage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { Fleet, Replica } from "./replica.ts";

type Sample = ReplicaUsage & { readonly atMs: number };

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

/** Interval between measurements of all replicas: two for the shortest evaluation interval. */
export const measureEveryMs = 3_000;

export type UtilizationParts = {
  readonly fleet: Fleet;
  readonly routes: {
    byAppId(appId: AppId): { readonly live: { readonly settings: AppSettings } | null } | undefined;
  };
  readonly driver: Pick<Driver, "usage">;
  readonly clock: Clock;
};

/** Measures usage; one instance per platform. */
export class Utilization {
  readonly #parts: UtilizationParts;
  #latest = new Map<ReplicaId, Sample>();
  /** Within each app's evaluation interval, oldest first. */
  #periods = new Map<AppId, readonly Period[]>();

  constructor(parts: UtilizationParts) {
    this.#parts = parts;
  }

  /** Measures the replicas of apps that scale by usage. Rejects when the driver does not answer. */
  async measure(): Promise<void> {
    const { fleet, routes, driver, clock } = this.#parts;
    const settingsOf = (appId: AppId): AppSettings | undefined =>
      routes.byAppId(appId)?.live?.settings;
    const wanted = fleet
      .all()
      .filter(({ state, appId }) => state === "ready" && isMeasured(settingsOf(appId)));
    const usage = wanted.length === 0 ? new Map<ReplicaId, ReplicaUsage>() : await driver.usage();
    const atMs = clock.monotonicMs();
    const periods = new Map<AppId, readonly Period[]>();
    for (const [appId, replicas] of Map.groupBy(wanted, (replica) => replica.appId)) {
      const fromMs = atMs - (settingsOf(appId)?.evaluationIntervalSeconds ?? 0) * 1000;
      const known = (this.#periods.get(appId) ?? []).filter((period) => period.atMs > fromMs);
      periods.set(appId, [
        ...known,
        ...this.#period(replicas, { usage, atMs, sinceMs: known.at(-1)?.atMs }),
      ]);
    }
    this.#periods = periods;
    this.#latest = new Map(
      wanted.flatMap(({ replicaId }) => {
        const one = usage.get(replicaId);
        return one === undefined ? [] : [[replicaId, { ...one, atMs }] as const];
      }),
    );
  }

  /**
   * Replicas that could not be measured count as the mean of the others; none when nothing was
   * measured.
   */
  #period(
    replicas: readonly Replica[],
    given: {
      readonly usage: ReadonlyMap<ReplicaId, ReplicaUsage>;
      readonly atMs: number;
      readonly sinceMs: number | undefined;
    },
  ): Period[] {
    const { usage, atMs, sinceMs = atMs - measureEveryMs } = given;
    const bytes = replicas.flatMap(({ replicaId }) => usage.get(replicaId)?.memoryBytes ?? []);
    const cores = replicas.flatMap(({ replicaId }) => {
      const before = this.#latest.get(replicaId);
      const now = usage.get(replicaId);
      return coresOf(now, before, (atMs - (before?.atMs ?? atMs)) / 1000) ?? [];
    });
    if (bytes.length === 0) return [];
    const all = replicas.length;
    return [
      {
        atMs,
        ms: atMs - sinceMs,
        cores: cores.length === 0 ? null : mean(cores) * all,
        bytes: mean(bytes) * all,
      },
    ];
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

/** The cores that a replica used between two measurements; null without both. */
export function coresOf(
  now: ReplicaUsage | undefined,
  before: ReplicaUsage | undefined,
  seconds: number,
): number | null {
  if (now === undefined || before === undefined || seconds <= 0) return null;
  // The last value may lack the time of processes that have exited.
  return Math.max(0, now.cpuSeconds - before.cpuSeconds) / seconds;
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}
