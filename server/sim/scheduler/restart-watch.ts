// What must hold across restarts of the platform, seen from outside: pauses between failed starts
// grow on, a cooldown neither begins anew nor is cut short. What was found out just before a kill
// may be lost, so nothing is expected of that.
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { SchedulerRoute } from "#scheduler/app-state.ts";
import type { ReplicaState } from "#scheduler/replica-state.ts";
import type { FakeDriver } from "#test/support/fake-driver.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Violation } from "./invariants.ts";
import type { MemoryRow, MemoryRows } from "./memory-rows.ts";
import type { SimPlatform } from "./sim-platform.ts";

export type Watched = {
  readonly clock: VirtualClock;
  readonly rows: MemoryRows;
  readonly platform: SimPlatform;
  readonly routes: readonly SchedulerRoute[];
  readonly driver: Pick<FakeDriver, "running">;
  /** Keeps a violation that is found in the middle of things. */
  note(check: () => void): void;
};

/**
 * `isExternal`: the last start failed for a reason outside the release, which counts as no failure.
 */
type Failing = { readonly count: number; readonly failedAt: number; readonly isExternal?: boolean };
type Drained = { readonly idleMs: number; readonly cooldownMs: number; readonly others: number };

/** The platform writes down what it knows at an interval of 2 s. */
const lostMs = 2_100;
/** Two looks, since a call counts until the look after its end, and the time of a turn. */
const slackMs = 3_000;
/** With the write that follows. */
const knownMs = slackMs + lostMs;
/** The shortest pause after the first failed start, and the longest one, with jitter. */
const pauseFirstMs = 1_000;
const pauseMsMax = 60_000;
const jitter = 0.9;
const forgetMs = 600_000;
/** Begins why a backend without room refuses a start. */
const noCapacity = "There is no ";

/** Follows one world. */
export class RestartWatch {
  readonly #world: Watched;
  readonly #failing = new Map<ReleaseId, Failing>();
  /** When an app had something to do last; nothing is expected of one that is not in it. */
  readonly #activeAt = new Map<AppId, number>();
  /** From when on its replicas beyond the minimum have nothing to do. */
  readonly #idleSince = new Map<AppId, number>();
  readonly #drained = new Map<ReplicaId, Drained>();
  /** When the platform of now began, and when it was asked to end. */
  #beganAt = VirtualClock.beginMs;
  #endsAt = Number.POSITIVE_INFINITY;

  constructor(world: Watched) {
    this.#world = world;
    world.rows.onInsert = (row) => world.note(() => this.#inserted(row));
    world.rows.onMove = (row, before) => world.note(() => this.#moved(row, before));
  }

  /** The platform is killed, or asked to stop. */
  ends(): void {
    this.#endsAt = this.#world.clock.now();
  }

  /** Another platform has begun; of what came too late before, nothing is expected. */
  begins(): void {
    const now = this.#world.clock.now();
    for (const [releaseId, { failedAt }] of this.#failing) {
      if (failedAt > this.#endsAt - lostMs) this.#failing.delete(releaseId);
    }
    for (const { appId } of this.#world.routes) {
      if ((this.#activeAt.get(appId) ?? 0) > this.#endsAt - lostMs) this.#activeAt.delete(appId);
      if ((this.#idleSince.get(appId) ?? now) > this.#endsAt - knownMs)
        this.#idleSince.set(appId, now);
    }
    this.#beganAt = now;
    this.#endsAt = Number.POSITIVE_INFINITY;
  }

  promoted(appId: AppId): void {
    this.#idleSince.set(appId, this.#world.clock.now());
  }

  /** A person's start tries at once, whatever failed before the stop. */
  stopped(appId: AppId): void {
    const live = this.#world.routes.find((route) => route.appId === appId)?.live;
    if (live !== undefined && live !== null) this.#failing.delete(live.releaseId);
    this.#idleSince.set(appId, this.#world.clock.now());
  }

  /** After each event. */
  check(): void {
    const { clock, platform, routes } = this.#world;
    const now = clock.now();
    for (const route of routes) {
      const { running, waiting, lastActiveAtMs } = platform.proxy.demandOf(route.appId);
      const lastAt = running + waiting > 0 ? now : VirtualClock.beginMs + (lastActiveAtMs ?? -1);
      if (lastAt >= this.#beganAt) {
        this.#activeAt.set(route.appId, lastAt);
        this.#idleSince.set(route.appId, Math.max(lastAt, this.#idleSince.get(route.appId) ?? 0));
      }
      if (now < this.#endsAt && now - this.#beganAt > slackMs) this.#checkIdle(route);
    }
  }

  #checkIdle({ appId, live, restarts }: SchedulerRoute): void {
    if (live === null) return;
    const now = this.#world.clock.now();
    const { cooldownPeriodSeconds, minReplicaCount } = live.settings;
    const keptMs = cooldownPeriodSeconds * 1000 + slackMs;
    if (now - (this.#idleSince.get(appId) ?? now) <= keptMs) return;
    const ofLive = [...this.#world.rows.rows.values()].filter(
      ({ releaseId, state }) =>
        releaseId === live.releaseId && (state === "starting" || state === "ready"),
    );
    // Replicas that replace others are beyond what is needed for a while.
    if (ofLive.some((row) => row.restarts < restarts)) return;
    const ready = ofLive.filter(({ state }) => state === "ready");
    const late = ready.find(({ readyAt }) => now - (readyAt ?? now) > keptMs);
    if (ready.length <= minReplicaCount || late === undefined) return;
    this.#fail(`replica ${late.replicaId} outlives the cooldown of ${cooldownPeriodSeconds} s`);
  }

  #inserted(row: MemoryRow): void {
    const failing = this.#failing.get(row.releaseId);
    if (failing === undefined || !this.#isLive(row)) return;
    const { count, isExternal = false } = failing;
    if (count === 0 && !isExternal) return;
    const passedMs = row.createdAt - failing.failedAt;
    const pauseMs =
      jitter * (isExternal ? pauseFirstMs : Math.min(pauseMsMax, pauseFirstMs * 2 ** (count - 1)));
    if (passedMs >= pauseMs || passedMs > forgetMs) return;
    this.#fail(
      `a start of ${row.releaseId} follows ${passedMs} ms after ${failing.count} failed in a row`,
    );
  }

  #moved(row: MemoryRow, before: ReplicaState): void {
    const failed = this.#failing.get(row.releaseId);
    if (row.state === "ready" && failed !== undefined)
      this.#failing.set(row.releaseId, { ...failed, count: 0 });
    if (row.state === "draining" && before === "ready") this.#noteDrain(row);
    if (row.state !== "stopped") return;
    this.#checkDrain(row);
    const now = this.#world.clock.now();
    // Starts of an earlier platform may have failed while nobody looked; starts side by side count
    // once.
    const isCounted =
      before === "starting" &&
      row.createdAt >= Math.max(this.#beganAt, failed?.failedAt ?? 0) &&
      now < this.#endsAt;
    if (isCounted && this.#isLive(row)) {
      const isExternal = row.reason?.startsWith(noCapacity) === true;
      const count = (failed?.count ?? 0) + (isExternal ? 0 : 1);
      this.#failing.set(row.releaseId, { count, failedAt: now, isExternal });
    } else if (before !== "draining" || row.readyAt === null) {
      this.#failing.set(row.releaseId, { count: 0, failedAt: now });
    }
  }

  #noteDrain(row: MemoryRow): void {
    const activeAt = this.#activeAt.get(row.appId);
    // A roll-out ends what gives its calls up, whenever that was used last.
    const isRollingOut = (this.#route(row.appId)?.rollOut ?? null) !== null;
    if (activeAt === undefined || isRollingOut || !this.#isLive(row)) return;
    const all = [...this.#world.rows.rows.values()];
    // Rows follow what happens: one that is ready may not be written down as such yet.
    const up = new Set(
      this.#world.driver
        .running()
        .flatMap(({ spec, isReady }) => (isReady ? [spec.replicaId] : [])),
    );
    const others = all.filter(
      ({ replicaId, releaseId, state }) =>
        releaseId === row.releaseId &&
        (state === "ready" || (state === "starting" && up.has(replicaId))),
    ).length;
    const cooldownMs = 1000 * (this.#route(row.appId)?.live?.settings.cooldownPeriodSeconds ?? 0);
    this.#drained.set(row.replicaId, {
      idleMs: this.#world.clock.now() - activeAt,
      cooldownMs,
      others,
    });
  }

  #checkDrain({ replicaId, reason }: MemoryRow): void {
    const drained = this.#drained.get(replicaId);
    if (drained === undefined || reason !== "It was no longer needed." || drained.others > 0)
      return;
    if (drained.idleMs >= drained.cooldownMs) return;
    this.#fail(
      `replica ${replicaId} was ended ${drained.idleMs} ms after the last call, within its cooldown`,
    );
  }

  #isLive({ appId, releaseId }: MemoryRow): boolean {
    return this.#route(appId)?.live?.releaseId === releaseId;
  }

  #route(appId: AppId): SchedulerRoute | undefined {
    return this.#world.routes.find((route) => route.appId === appId);
  }

  #fail(what: string): never {
    const seconds = (this.#world.clock.now() - VirtualClock.beginMs) / 1000;
    throw new Violation(`${what} (${seconds} s after the beginning)`);
  }
}
