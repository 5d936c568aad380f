// A small pool that all simulated apps share, some of them protected, and what must hold of it.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { CardPool } from "#drivers/pools/cards.ts";
import type { AppId } from "#lib/ids.ts";
import type { SchedulerRoute } from "#scheduler/app-state.ts";
import { reclaimedReason } from "#scheduler/reclaim.ts";
import type { FakeDriver } from "#test/support/fake-driver.ts";
import { Seeded } from "#test/support/seeded.ts";
import type { MemoryRows } from "./memory-rows.ts";
import type { SimPlatform } from "./sim-platform.ts";

type Crowded = {
  readonly driver: FakeDriver;
  readonly rows: MemoryRows;
  readonly platform: SimPlatform;
  readonly routes: readonly SchedulerRoute[];
};

/** Draws of its own, so that other worlds are what they were. */
export class Crowd {
  readonly pools: readonly CardPool[];
  readonly #cores: number;
  readonly #seeded: Seeded;
  readonly #protected = new Map<AppId, boolean>();

  constructor(seed: number) {
    this.#seeded = new Seeded(seed);
    this.#cores = this.#seeded.integer(2, 5);
    this.pools = [
      {
        name: "small",
        provider: null,
        region: null,
        tier: "protected",
        takesCpu: true,
        cores: this.#cores,
        memoryGb: 1000,
        overcommit: 1,
        gpus: [],
      },
    ];
  }

  /** Apps keep their tier; releases have different sizes. */
  settingsOf(settings: AppSettings, appId: AppId): AppSettings {
    const isProtected = this.#protected.get(appId) ?? this.#seeded.chance(0.4);
    this.#protected.set(appId, isProtected);
    const computeTier = isProtected ? "protected" : "interruptible";
    return { ...settings, computeTier, cpu: this.#seeded.pick([1, 1, 2]), memory: 1 };
  }

  countReclaimed({ rows }: Crowded): number {
    return [...rows.rows.values()].filter(({ reason }) => reason === reclaimedReason).length;
  }

  /** True now and then while a replica makes way: the platform restarts then. */
  isCut({ rows }: Pick<Crowded, "rows">): boolean {
    const isMakingWay = [...rows.rows.values()].some(
      ({ state, endOrder }) => state === "draining" && endOrder?.kind === "reclaimed",
    );
    return isMakingWay && this.#seeded.chance(0.2);
  }

  /** What is wrong now; undefined: nothing. */
  violation({ driver, rows }: Crowded): string | undefined {
    const used = driver.running().reduce((sum, { spec }) => sum + spec.cpuCores, 0);
    if (used > this.#cores) return `replicas have ${used} cores, where there are ${this.#cores}`;
    const wrong = [...rows.rows.values()].find(
      ({ reason, computeTier }) => reason === reclaimedReason && computeTier === "protected",
    );
    if (wrong !== undefined) return `the protected replica ${wrong.replicaId} was reclaimed`;
    const untold = [...rows.rows.values()].find(
      ({ state, endOrder, reason }) =>
        state === "stopped" && endOrder?.kind === "reclaimed" && reason !== reclaimedReason,
    );
    return (
      untold &&
      `replica ${untold.replicaId} was reclaimed, and is said to have ended because: ${untold.reason}`
    );
  }

  /** Nobody waits for what nobody has, and no protected replica for an interruptible one. */
  violationAtRest({ driver, platform, routes }: Crowded): string | undefined {
    const running = driver.running().map(({ spec }) => spec);
    const free = this.#cores - running.reduce((sum, { cpuCores }) => sum + cpuCores, 0);
    const reclaimable = running
      .filter(({ tier }) => tier === "interruptible")
      .reduce((sum, { cpuCores }) => sum + cpuCores, 0);
    for (const { appId, live } of routes) {
      if (live === null) continue;
      const { minReplicaCount, cpu, computeTier } = live.settings;
      const own = running.filter((spec) => spec.appId === appId).length;
      const isShort = own < minReplicaCount || platform.proxy.demandOf(appId).waiting > 0;
      const forIt = free + (computeTier === "protected" ? reclaimable : 0);
      // Who needs more than is free keeps it for itself.
      const isFirst = routes.every(({ live: other }) => (other?.settings.cpu ?? 0) <= forIt);
      if (isShort && cpu <= forIt && isFirst)
        return `${appId} (${computeTier}) has ${own} of ${minReplicaCount} replicas at rest, although ${forIt} cores could be had`;
    }
    return undefined;
  }
}
