// How much of their processor time and memory the replicas of an app use, for apps that scale by it: measured by the driver from
// time to time, averaged over the app's evaluation interval.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver, ReplicaUsage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Fleet, Replica } from "./replica.ts";

type Sample = ReplicaUsage & { readonly atMs: number };

/** Of the replicas that were measured: how many there are, and the sum of the shares that they use of what each may use. */
export type MeasuredLoad = { readonly replicas: number; readonly shares: number };

/** Between two measurements of all replicas. */
export const measureEveryMs = 5_000;

/** One for the platform. */
export class Utilization {
  readonly #fleet: Fleet;
  readonly #driver: Pick<Driver, "usage">;
  readonly #clock: Clock;
  /** Of each replica, oldest first, no older than its app's evaluation interval but for the first one. */
  #samples = new Map<ReplicaId, readonly Sample[]>();

  constructor(parts: { readonly fleet: Fleet; readonly driver: Pick<Driver, "usage">; readonly clock: Clock }) {
    this.#fleet = parts.fleet;
    this.#driver = parts.driver;
    this.#clock = parts.clock;
  }

  /** Measures the replicas of apps that scale by it. Rejects when the driver does not answer. */
  async measure(): Promise<void> {
    const wanted = this.#fleet.all().filter((one) => one.state === "ready" && isMeasured(one.release.settings));
    const usage = wanted.length === 0 ? new Map<ReplicaId, ReplicaUsage>() : await this.#driver.usage();
    const atMs = this.#clock.monotonicMs();
    const next = new Map<ReplicaId, readonly Sample[]>();
    for (const { replicaId, release } of wanted) {
      const latest = usage.get(replicaId);
      if (latest === undefined) continue;
      const fromMs = atMs - release.settings.evaluationIntervalSeconds * 1000;
      const known = this.#samples.get(replicaId) ?? [];
      const begin = Math.max(
        0,
        known.findLastIndex((sample) => sample.atMs <= fromMs),
      );
      next.set(replicaId, [...known.slice(begin), { ...latest, atMs }]);
    }
    this.#samples = next;
  }

  /** What these replicas of one release use. Null: none of them was measured (long enough) yet, or the app does not scale by it. */
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
  // Time of processes that have ended may be missing at the end.
  return seconds > 0 ? Math.max(0, last.cpuSeconds - first.cpuSeconds) / seconds / cpu : null;
}
