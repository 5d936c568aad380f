// Usage of processor time and memory of an app's replicas, for apps that scale by it: measured periodically by the
// driver, averaged over the app's evaluation interval.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver, ReplicaUsage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Fleet, Replica } from "./replica.ts";

type Sample = ReplicaUsage & { readonly atMs: number };

/** Measured replicas: their number, and the sum of their usage as shares of what each may use. */
export type MeasuredLoad = { readonly replicas: number; readonly shares: number };

/** Interval between measurements of all replicas. */
export const measureEveryMs = 5_000;

/** Measures usage; one instance per platform. */
export class Utilization {
  readonly #fleet: Fleet;
  readonly #driver: Pick<Driver, "usage">;
  readonly #clock: Clock;
  /** Samples of each replica, oldest first, within its app's evaluation interval except for the first one. */
  #samples = new Map<ReplicaId, readonly Sample[]>();

  constructor(parts: { readonly fleet: Fleet; readonly driver: Pick<Driver, "usage">; readonly clock: Clock }) {
    this.#fleet = parts.fleet;
    this.#driver = parts.driver;
    this.#clock = parts.clock;
  }

  /** Measures the replicas of apps that scale by usage. Rejects when the driver does not answer. */
  async measure(): Promise<void> {
    const wanted = this.#fleet.all().filter((one) => one.state === "ready" && isMeasured(one.settings));
    const usage = wanted.length === 0 ? new Map<ReplicaId, ReplicaUsage>() : await this.#driver.usage();
    const atMs = this.#clock.monotonicMs();
    const next = new Map<ReplicaId, readonly Sample[]>();
    for (const { replicaId, settings } of wanted) {
      const latest = usage.get(replicaId);
      if (latest === undefined) continue;
      const fromMs = atMs - settings.evaluationIntervalSeconds * 1000;
      const known = this.#samples.get(replicaId) ?? [];
      const begin = Math.max(
        0,
        known.findLastIndex((sample) => sample.atMs <= fromMs),
      );
      next.set(replicaId, [...known.slice(begin), { ...latest, atMs }]);
    }
    this.#samples = next;
  }

  /** The usage of these replicas of one release. Null: none was measured (long enough) yet, or the app does not scale by it. */
  of(replicas: readonly Replica[], settings: AppSettings): MeasuredLoad | null {
    if (!isMeasured(settings)) return null;
    const shares = replicas.flatMap(({ replicaId }) => shareOf(this.#samples.get(replicaId) ?? [], settings) ?? []);
    return shares.length === 0 ? null : { replicas: shares.length, shares: shares.reduce((sum, one) => sum + one, 0) };
  }
}

function isMeasured({ scalingMetric }: AppSettings): boolean {
  return scalingMetric === "cpu_utilization" || scalingMetric === "memory_utilization";
}

function shareOf(samples: readonly Sample[], { scalingMetric, cpu, memory }: AppSettings): number | null {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return null;
  if (scalingMetric === "memory_utilization") return last.memoryBytes / (memory * 1e9);
  const seconds = (last.atMs - first.atMs) / 1000;
  // The last value may lack the time of processes that have exited.
  return seconds > 0 ? Math.max(0, last.cpuSeconds - first.cpuSeconds) / seconds / cpu : null;
}
