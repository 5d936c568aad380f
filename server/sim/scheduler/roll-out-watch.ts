// What must hold while calls move from one release to another: nothing that serves is ended before
// others can carry its calls, and all releases together stay within what an app may have.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { SchedulerRoute } from "#scheduler/app-state.ts";
import { countWhileMoving } from "#scheduler/shares.ts";
import type { FakeDriver } from "#test/support/fake-driver.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Violation } from "./invariants.ts";
import type { MemoryRow, MemoryRows } from "./memory-rows.ts";
import type { SimPlatform } from "./sim-platform.ts";

export type RollingWorld = {
  readonly clock: VirtualClock;
  readonly rows: MemoryRows;
  readonly platform: SimPlatform;
  readonly driver: Pick<FakeDriver, "running">;
  readonly routes: readonly SchedulerRoute[];
  /** How many replicas the project of all apps may have; null: any number. */
  readonly replicasMax: number | null;
  readonly crowd: unknown;
  isUnready(replicaId: ReplicaId): boolean;
  isStopped(appId: AppId): boolean;
};

/** Follows one world. */
export class RollOutWatch {
  readonly #world: RollingWorld;
  readonly #retired = new Set<ReplicaId>();
  #seen: SimPlatform | undefined;
  /** Since when an app has had replicas beyond its maximum. */
  readonly #beyondSince = new Map<AppId, number>();

  constructor(world: RollingWorld) {
    this.#world = world;
  }

  /** A replica is about to get no further calls. */
  retires(replicaId: ReplicaId): void {
    // Another platform serves again what one that was killed had retired, and not yet written down.
    if (this.#seen !== this.#world.platform) this.#retired.clear();
    this.#seen = this.#world.platform;
    this.#retired.add(replicaId);
    const { rows, routes, replicasMax, crowd } = this.#world;
    const row = rows.rows.get(replicaId);
    const route = routes.find(({ appId }) => appId === row?.appId);
    if (row === undefined || route === undefined || this.#world.isStopped(row.appId)) return;
    // Others may need what this one has.
    if (replicasMax !== null || crowd !== null) return;
    if (this.#world.isUnready(replicaId) || row.restarts < (route.restarts ?? 0)) return;
    const listed = new Set(
      this.#world.platform.view.ready(route.appId).map((ready) => ready.replicaId),
    );
    if (!listed.has(replicaId)) return;
    // Rows follow what happens: one that is ready may not be written down as such yet.
    const up = new Set(
      this.#world.driver
        .running()
        .flatMap(({ spec, isReady }) => (isReady ? [spec.replicaId] : [])),
    );
    // Replicas of a release that has just been promoted are listed at the end of this turn.
    const served = [route.live?.releaseId, route.rollOut?.release.releaseId];
    const left = [...rows.rows.values()].filter(
      (one) =>
        one.appId === route.appId &&
        (one.state === "ready" || (one.state === "starting" && up.has(one.replicaId))) &&
        (listed.has(one.replicaId) || served.includes(one.releaseId)) &&
        !this.#retired.has(one.replicaId),
    );
    this.#checkRest(route, row.releaseId, left);
  }

  #checkRest(route: SchedulerRoute, releaseId: string, left: readonly MemoryRow[]): void {
    const { live, rollOut, refusedReleaseId } = route;
    if (live === null || releaseId === refusedReleaseId) return;
    const isGiving = live.releaseId === releaseId && rollOut !== undefined && rollOut !== null;
    const isLeaving = live.releaseId !== releaseId && rollOut?.release.releaseId !== releaseId;
    if (!isGiving && !isLeaving) return;
    if (live.settings.scalingMetric !== "concurrency_utilization") return;
    const { running, waiting } = this.#world.platform.proxy.demandOf(route.appId);
    const needed = neededOf(live.settings, running + waiting);
    if (isGiving) {
      const count = left.filter((row) => row.releaseId === releaseId).length;
      const min = Math.ceil(needed * (1 - rollOut.share / 100) - 1e-9);
      if (count < min)
        this.#fail(
          `a replica of ${releaseId} was ended: ${count} serve where ${min} are needed for its share`,
        );
      return;
    }
    // Each carries its part of all calls; what leaves is rounded down.
    const parts = left.map((row) => {
      const next = rollOut?.release;
      return (
        1 /
        Math.max(
          1,
          neededOf(
            row.releaseId === next?.releaseId ? next.settings : live.settings,
            running + waiting,
          ),
        )
      );
    });
    const carried = parts.reduce((sum, part) => sum + part, 0);
    const isEnough = needed === 0 || (left.length > 0 && carried + 1 / needed > 1 - 1e-9);
    if (!isEnough)
      this.#fail(
        `a replica of ${releaseId} was ended: ${left.length} serve, fewer than needed for its share`,
      );
  }

  /** After each event. */
  check(): void {
    const { rows, routes, clock } = this.#world;
    for (const { appId, live, rollOut, restarts = 0 } of routes) {
      const alive = [...rows.rows.values()].filter(
        (row) => row.appId === appId && (row.state === "starting" || row.state === "ready"),
      );
      const served = alive.filter(({ releaseId }) =>
        [live?.releaseId, rollOut?.release.releaseId].includes(releaseId),
      );
      const maxima = [live, rollOut?.release].map(
        (release) => release?.settings.maxReplicaCount ?? 0,
      );
      const surge = countWhileMoving(Math.max(...maxima)) - Math.max(...maxima);
      const isRestarting = alive.some((row) => row.restarts < restarts);
      const max = Math.max(...maxima) + surge * (isRestarting ? 2 : 1);
      const since = served.length > max ? (this.#beyondSince.get(appId) ?? clock.now()) : undefined;
      if (since === undefined) this.#beyondSince.delete(appId);
      else this.#beyondSince.set(appId, since);
      // A lower maximum, and a replica that comes from a trial, are seen at the next look.
      if (since !== undefined && clock.now() - since > 2_000 && !this.#isStarting(served)) {
        this.#fail(`${served.length} replicas of all releases of ${appId}, at most ${max} allowed`);
      }
    }
  }

  /** Starting replicas are not ended. */
  #isStarting(served: readonly { readonly state: string }[]): boolean {
    return !this.#world.platform.isAlive || served.some(({ state }) => state === "starting");
  }

  #fail(what: string): never {
    const seconds = (this.#world.clock.now() - VirtualClock.beginMs) / 1000;
    throw new Violation(`${what} (${seconds} s after the beginning)`);
  }
}

/** How many replicas with these settings have a slot for each call. */
function neededOf({ replicaConcurrency, maxReplicaCount }: AppSettings, calls: number): number {
  return Math.min(maxReplicaCount, Math.ceil(calls / replicaConcurrency));
}
