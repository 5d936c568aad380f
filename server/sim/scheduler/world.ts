// The simulated world: apps with random settings, calls, deploys, crashes, faults and restarts of
// the platform, all drawn from one seed, and the promises of the scheduler, checked after
// everything that happens.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { RouteSource, SchedulerRoute } from "#scheduler/app-state.ts";
import type { StoredRelease } from "#scheduler/replica-rows.ts";
import { Crowd } from "./crowd.ts";
import { checkAtRest, checkNow, checkStop, Violation } from "./invariants.ts";
import { MemoryRows } from "./memory-rows.ts";
import { addOthers } from "./others.ts";
import { Outages } from "./outages.ts";
import { RestartWatch } from "./restart-watch.ts";
import { RollOutWatch } from "./roll-out-watch.ts";
import { Seeded } from "#test/support/seeded.ts";
import { FakeDriver, goodScript, type StartScript } from "#test/support/fake-driver.ts";
import { Stops } from "./stops.ts";
import { SimPlatform, type Mutation } from "./sim-platform.ts";
import type { WorldOptions, WorldReport } from "./world-options.ts";
import { appSettings } from "./sim-settings.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { tcpAddress } from "#test/support/replica-address.ts";
import { firstRoute } from "#test/support/first-route.ts";

/** Long enough for each cooldown, drain, deadline and retry to pass, one after the other. */
const restMs = 400_000;

/** Runs one seed to its end. Throws `Violation` when a promise is broken. */
export async function runWorld(options: WorldOptions): Promise<WorldReport> {
  const world = new World(options);
  await world.run(options.steps);
  return world.report;
}

/** All that exists; `invariants.ts` reads it. */
class World {
  readonly clock: VirtualClock;
  readonly rows = new MemoryRows();
  readonly driver: FakeDriver;
  readonly report: WorldReport = {
    served: 0,
    refused: 0,
    crashed: 0,
    starts: 0,
    deploys: 0,
    steps: 0,
    takenBack: 0,
    restarts: 0,
    replacements: 0,
    stops: 0,
    outages: 0,
    reclaimed: 0,
    cuts: 0,
  };
  platform: SimPlatform;
  readonly crowd: Crowd | null;
  /** Releases that have got calls. */
  readonly served = new Set<ReleaseId>();
  readonly #watch = new RestartWatch(this);
  readonly #rollOuts = new RollOutWatch(this);
  readonly #seeded: Seeded;
  readonly #mutation: Mutation | null;
  readonly #routes = new Map<AppId, SchedulerRoute>();
  readonly #listeners = new Set<(appId: AppId) => void>();
  /** The live release before. */
  readonly #previous = new Map<AppId, ReleaseId>();
  readonly #unready = new Set<ReplicaId>();
  readonly #unservedSinceMs = new Map<AppId, number>();
  /** Draws of their own, so that worlds without limits are what they were. */
  readonly #limits: Seeded;
  /** How many of the starts fail. */
  readonly #exitsEarly: number;
  #replicasMax: number | null = null;
  readonly #stops: Stops;
  readonly #outages: Outages;
  #changeLimit: (projectId: ProjectId | null) => void = () => undefined;
  #beyondSinceMs: number | null = null;
  #hasFaults = true;
  #violation: Violation | undefined;

  constructor(options: WorldOptions) {
    this.#seeded = new Seeded(options.seed);
    this.clock = new VirtualClock(this.#seeded.next);
    this.#mutation = options.mutation ?? null;
    this.#limits = new Seeded(options.seed);
    this.#exitsEarly = options.isFailing === true ? 0.8 : 0.08;
    this.#stops = new Stops(
      options.isStopping === true ? options.seed + 1 : null,
      (appId, isStopped) => {
        if (isStopped) this.#watch.stopped(appId);
        for (const listener of this.#listeners) listener(appId);
      },
    );
    if (options.isLimited === true) this.#replicasMax = this.#limits.integer(1, 4);
    this.crowd = options.isCrowded === true ? new Crowd(options.seed + 2) : null;
    const pools = this.crowd === null ? {} : { pools: this.crowd.pools };
    this.driver = new FakeDriver({ clock: this.clock, script: () => this.#script(), ...pools });
    const { clock, driver, rows } = this;
    this.#outages = new Outages({ seed: options.seed + 3, clock, driver, rows });
    const apps = this.#seeded.integer(1, 3);
    for (let index = 0; index < apps; index++) this.#addApp(`app-${index}`);
    addOthers(this);
    this.platform = this.#newPlatform();
    this.driver.busy = (replicaId) => this.platform.proxy.running(replicaId);
    this.driver.onExit = (replica, how) => {
      if (how !== "crash") this.note(() => checkStop(this, replica, how));
      this.platform.proxy.lose(replica.spec.replicaId);
    };
    this.driver.onAsked = (replica) => this.note(() => checkStop(this, replica, "asked"));
  }

  /**
   * For how long calls of the app have been waiting without any replica that takes calls; 0 when
   * `isUnserved` is false.
   */
  unservedMs(appId: AppId, isUnserved: boolean): number {
    const nowMs = this.clock.monotonicMs();
    if (!isUnserved) {
      this.#unservedSinceMs.delete(appId);
      return 0;
    }
    const sinceMs = this.#unservedSinceMs.get(appId) ?? nowMs;
    this.#unservedSinceMs.set(appId, sinceMs);
    return nowMs - sinceMs;
  }

  /** How many replicas the project may have; null: any number. */
  get replicasMax(): number | null {
    return this.#replicasMax;
  }

  readonly isStopped = (appId: AppId): boolean => this.#stops.has(appId);

  /**
   * For how long there have been replicas beyond the limit that could have gone; 0 when `isBeyond`
   * is false.
   */
  beyondMs(isBeyond: boolean): number {
    const nowMs = this.clock.monotonicMs();
    this.#beyondSinceMs = isBeyond ? (this.#beyondSinceMs ?? nowMs) : null;
    return nowMs - (this.#beyondSinceMs ?? nowMs);
  }

  get routes(): readonly SchedulerRoute[] {
    return [...this.#routes.values()];
  }

  async run(steps: number): Promise<void> {
    void this.platform.start();
    for (let step = 0; step < steps; step++) {
      await this.#advance(this.#seeded.integer(1, 4000));
      await this.#happen();
    }
    this.#hasFaults = false;
    this.#stops.end();
    this.#outages.end();
    this.#unready.clear();
    await this.#advance(restMs);
    checkAtRest(this);
    this.#countOutcomes();
    this.report.stops = this.#stops.total;
    this.report.outages = this.#outages.total;
    this.report.reclaimed = this.crowd?.countReclaimed(this) ?? 0;
    this.report.starts = this.driver.started.size;
    await this.platform.stop();
  }

  async #advance(ms: number): Promise<void> {
    await this.clock.advance(ms, () => {
      this.note(() => checkNow(this));
      this.note(() => this.#watch.check());
      this.note(() => this.#rollOuts.check());
      this.note(() => this.#checkOutage());
      if (this.#violation !== undefined) throw this.#violation;
    });
  }

  #checkOutage(): void {
    const violation = this.#outages.violation();
    if (violation !== undefined) throw new Violation(violation);
  }

  /**
   * Checks run in the middle of things; the first violation is kept and thrown between two timers.
   */
  note(check: () => void): void {
    try {
      check();
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.#violation ??= error;
    }
  }

  async #happen(): Promise<void> {
    if (this.#replicasMax !== null && this.#limits.chance(0.1)) {
      this.#replicasMax = this.#limits.integer(1, 4);
      this.#changeLimit(null);
    }
    this.#outages.happen();
    if (this.#stops.happen(this.routes)) return;
    if (this.crowd?.isCut(this) === true) {
      this.report.cuts++;
      await this.#restart();
      return;
    }
    const draw = this.#seeded.next();
    if (draw < 0.7) this.#callSome();
    else if (draw < 0.77) this.#crashOne();
    else if (draw < 0.84) this.#makeUnready();
    else if (draw < 0.92) this.#deploy();
    else if (draw < 0.95) await this.#restart();
    else if (draw < 0.97) this.#replaceAll();
  }

  #callSome(): void {
    const { appId } = this.#seeded.pick(this.routes);
    const calls = this.#seeded.integer(1, 8);
    for (let count = 0; count < calls; count++) {
      this.clock.after(this.#seeded.integer(0, 500), () => {
        // Most calls are short, some take longer than the grace period of some apps.
        const durationMs = this.#seeded.chance(0.05) ? 30_000 : this.#seeded.integer(5, 3000);
        this.platform.proxy.call(appId, durationMs);
      });
    }
  }

  #crashOne(): void {
    const running = this.driver.running();
    if (running.length > 0) this.driver.crash(this.#seeded.pick(running).spec.replicaId);
  }

  #makeUnready(): void {
    const running = this.driver.running();
    if (running.length === 0) return;
    const { replicaId } = this.#seeded.pick(running).spec;
    this.#unready.add(replicaId);
    this.clock.after(this.#seeded.integer(1000, 30_000), () => this.#unready.delete(replicaId));
  }

  #deploy(): void {
    const { platform } = this;
    const route = this.#seeded.pick(this.routes);
    const release = this.#addRelease(route);
    const { signal } = new AbortController();
    const trial = platform.scheduler.tryRelease(release, {
      signal,
      deadlineMs: 60_000,
      onLine: () => undefined,
    });
    void trial.then((outcome) => {
      if (!outcome.ok) return;
      this.clock.after(this.#seeded.integer(0, 100), () => {
        if (!platform.isAlive) return;
        this.report.deploys++;
        if (this.#seeded.chance(0.5)) this.#promote(release);
        else this.#rollOut(release, this.#seeded.pick([500, 3000, 15_000]));
      });
    });
  }

  /** Moves a fifth of the calls after each pause; another deploy takes its place. */
  #rollOut(release: StoredRelease, pauseMs: number): void {
    this.served.add(release.releaseId);
    const step = (share: number): void => {
      const route = this.#routes.get(release.appId);
      if (
        route === undefined ||
        (share > 20 && route.rollOut?.release.releaseId !== release.releaseId)
      )
        return;
      if (share > 100 || !this.#hasFaults) {
        this.#promote(release);
        return;
      }
      const isTakenBack = share > 20 && this.#seeded.chance(0.1);
      const isWorse = isTakenBack && this.#seeded.chance(0.5);
      if (isTakenBack) this.report.takenBack++;
      else this.report.steps++;
      this.#change({
        ...route,
        rollOut: isTakenBack ? null : { release, share },
        refusedReleaseId: isWorse ? release.releaseId : null,
      });
      this.clock.after(pauseMs, () => step(share + 20));
    };
    step(20);
  }

  #change(route: SchedulerRoute): void {
    const before = this.#routes.get(route.appId)?.live?.releaseId;
    if (before !== undefined && before !== route.live?.releaseId)
      this.#previous.set(route.appId, before);
    this.#routes.set(route.appId, route);
    this.#watch.promoted(route.appId);
    for (const listener of this.#listeners) listener(route.appId);
  }

  isUnready(replicaId: ReplicaId): boolean {
    return this.#unready.has(replicaId);
  }

  /** As after a change of an app's secrets. */
  #replaceAll(): void {
    const route = this.#seeded.pick(this.routes);
    this.#routes.set(route.appId, { ...route, restarts: (route.restarts ?? 0) + 1 });
    for (const listener of this.#listeners) listener(route.appId);
    this.report.replacements++;
  }

  async #restart(): Promise<void> {
    this.#countOutcomes();
    this.report.restarts++;
    this.#watch.ends();
    if (this.#seeded.chance(0.5)) {
      const stopping = this.platform.stop();
      await this.#advance(6000);
      await stopping;
    } else {
      this.platform.kill();
    }
    await this.#advance(this.#seeded.integer(0, 20_000));
    this.#unservedSinceMs.clear();
    this.#beyondSinceMs = null;
    // A platform starts only where the backend answers.
    this.#outages.end();
    this.platform = this.#newPlatform();
    this.#watch.begins();
    void this.platform.start();
  }

  #countOutcomes(): void {
    const { served, refused, crashed } = this.platform.proxy.outcomes;
    this.report.served += served;
    this.report.refused += refused;
    this.report.crashed += crashed;
  }

  #newPlatform(): SimPlatform {
    const listeners = this.#listeners;
    listeners.clear();
    const routes: RouteSource = {
      byAppId: (appId) => this.#seenRoute(appId),
      all: () => this.#routes.values(),
      onChange: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    };
    return new SimPlatform({
      clock: this.clock,
      driver: this.driver,
      rows: this.rows,
      routes,
      allowance: {
        limitsOf: () => ({ name: "The plan", replicasMax: this.#replicasMax, gpusMax: null }),
        stopOf: (_projectId, appId) =>
          this.#mutation === "stops are not seen" ? undefined : this.#stops.of(appId),
        onChange: (listener) => {
          this.#changeLimit = listener;
          return () => (this.#changeLimit = () => undefined);
        },
      },
      probe: ({ address }) => {
        const isUp =
          this.driver.answers(address) && !this.#unready.has(tcpAddress(address).host as ReplicaId);
        return Promise.resolve(isUp ? { ok: true } : { ok: false, reason: "It does not answer." });
      },
      mutation: this.#mutation,
      onRetire: (replicaId) => this.note(() => this.#rollOuts.retires(replicaId)),
    });
  }

  #seenRoute(appId: AppId): SchedulerRoute | undefined {
    const route = this.#routes.get(appId);
    if (this.#mutation === "restarts are not seen" && route !== undefined)
      return { ...route, restarts: 0 };
    if (this.#mutation === "releases that leave are not kept" && route !== undefined) {
      return { ...route, refusedReleaseId: this.#previous.get(appId) ?? null };
    }
    if (this.#mutation === "a roll-out gets all calls at once" && route?.rollOut) {
      return { ...route, rollOut: { ...route.rollOut, share: 100 } };
    }
    if (
      this.#mutation !== "one replica above the maximum" ||
      route === undefined ||
      route.live === null
    )
      return route;
    const { settings } = route.live;
    return {
      ...route,
      live: {
        ...route.live,
        settings: { ...settings, maxReplicaCount: settings.maxReplicaCount + 1 },
      },
    };
  }

  #addApp(name: string): void {
    const projectId = "p-00000000" as ProjectId;
    const appId = `${projectId}-${name}` as AppId;
    const route: SchedulerRoute = { ...firstRoute, appId, projectId, live: null };
    this.#routes.set(appId, route);
    this.#promote(this.#addRelease(route));
  }

  #addRelease(route: SchedulerRoute): StoredRelease {
    const number = this.rows.releases.size;
    const drawn: AppSettings = appSettings(this.#seeded);
    const settings = this.crowd?.settingsOf(drawn, route.appId) ?? drawn;
    const release: StoredRelease = {
      releaseId: `release-${number}` as ReleaseId,
      buildId: `build-${number}` as BuildId,
      projectId: route.projectId,
      appId: route.appId,
      settings,
      artifact: { kind: "fake" },
    };
    this.rows.releases.set(release.releaseId, release);
    return release;
  }

  #promote(release: StoredRelease): void {
    const { appId, projectId, releaseId, buildId, settings } = release;
    const restarts = this.#routes.get(appId)?.restarts ?? 0;
    this.served.add(releaseId);
    const live = { releaseId, buildId, settings };
    this.#change({ ...firstRoute, appId, projectId, restarts, live });
  }

  #script(): StartScript {
    const seeded = this.#seeded;
    const isFaulty = (probability: number): boolean =>
      this.#hasFaults && seeded.chance(probability);
    const createMs = seeded.integer(1, 200);
    const refusal = isFaulty(0.05)
      ? ({ kind: "no_capacity", reason: "There is no room for it." } as const)
      : null;
    const readyMs = isFaulty(0.03) ? null : seeded.integer(1, seeded.chance(0.1) ? 40_000 : 2000);
    const exit = isFaulty(this.#exitsEarly)
      ? { afterMs: (createMs + (readyMs ?? createMs)) / 2, exitCode: 1 }
      : null;
    const isStubborn = isFaulty(0.05);
    const pendingMs = isFaulty(0.1) ? seeded.integer(1, 20_000) : 0;
    return { ...goodScript, createMs, refusal, readyMs, exit, isStubborn, pendingMs };
  }
}
