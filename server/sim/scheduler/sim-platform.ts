// One process of the platform in the simulation: a scheduler with a model of the proxy. It can be
// killed at any moment: nothing of it goes on after that, and what was under way outside of it
// comes to whatever end it comes to.
import type { Driver, ReplicaSink } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import { newRunId, type ReplicaId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Allowance } from "#scheduler/allowance.ts";
import { everythingAllowed } from "#test/support/everything-allowed.ts";
import type { RouteSource } from "#scheduler/app-state.ts";
import type { Demand, DemandSource, Occupancy } from "#scheduler/demand.ts";
import type { Probe } from "#scheduler/probe.ts";
import type { ReplicaRows, StoredScaling } from "#scheduler/replica-rows.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { Scheduler } from "#scheduler/scheduler.ts";
import type { MemoryRows } from "./memory-rows.ts";
import { ModelProxy } from "#test/support/model-proxy.ts";

/** A guard that is broken on purpose, to see that the simulation notices. */
export type Mutation =
  | "busy replicas look idle"
  | "waiting calls are not seen"
  | "starts are not recorded"
  | "ends are not recorded"
  | "restarts are not seen"
  | "stops are not seen"
  | "limits are not seen"
  | "outages are not seen"
  | "one replica above the maximum"
  | "releases that leave are not kept"
  | "a roll-out gets all calls at once"
  | "failed starts are forgotten"
  | "cooldowns are forgotten"
  | "orders to end are forgotten"
  | "rows of others are taken for its own";

export type PlatformParts = {
  readonly clock: Clock;
  readonly driver: Driver;
  readonly rows: MemoryRows;
  readonly routes: RouteSource;
  readonly allowance: Allowance;
  readonly probe: Probe;
  readonly mutation: Mutation | null;
  /** Called before a replica gets no further calls. */
  readonly onRetire: (replicaId: ReplicaId) => void;
  /** Absent: as the model of the proxy has it. */
  readonly lineLengthMax?: number;
};

/** Started with `start`, ended with `kill` or `stop`. */
export class SimPlatform {
  readonly proxy: ModelProxy;
  readonly view = new ReplicaView();
  readonly scheduler: Scheduler;
  isAlive = true;

  constructor(parts: PlatformParts) {
    const clock = this.#mortalClock(parts.clock);
    this.proxy = new ModelProxy(clock, parts);
    const { routes, allowance, probe, mutation } = parts;
    this.scheduler = new Scheduler({
      pendingMs: 600_000,
      zygoteBytes: 0,
      driver: this.#mortalDriver(parts.driver, mutation),
      instanceId: parts.driver.installationId,
      rows: this.#mortalRows(parts.rows, mutation),
      routes,
      allowance: mutation === "limits are not seen" ? everythingAllowed : allowance,
      demand: demandFor(this.proxy, mutation),
      occupancy: this.#occupancy(parts),
      environmentOf: () => this.#ifAlive(() => clock.sleep(2).then(() => ({}))),
      lines: { append: () => Promise.resolve(), assignLast: () => Promise.resolve() },
      view: this.view,
      log: silentLog,
      exitMs: 30_000,
      endsFile: null,
      clock,
      probe,
    });
    this.proxy.connect(this.view, (appId) => this.scheduler.nudge(appId));
    this.proxy.onBroken = (replicaId) =>
      void this.scheduler.brokeOff({ replicaId, runId: newRunId(), sinceMs: 0 });
  }

  #occupancy({ mutation, onRetire }: PlatformParts): Occupancy {
    const { proxy } = this;
    return {
      running: (replicaId) =>
        mutation === "busy replicas look idle" ? 0 : proxy.running(replicaId),
      retire: (replicaId) => {
        onRetire(replicaId);
        proxy.retire(replicaId);
      },
    };
  }

  start(): Promise<void> {
    return this.scheduler.start();
  }

  /** As SIGKILL does. */
  kill(): void {
    this.isAlive = false;
  }

  /** As SIGTERM does. */
  async stop(): Promise<void> {
    await this.scheduler.stop();
    this.isAlive = false;
  }

  /** Neither begins nor returns anything once the process is dead. */
  #ifAlive<T>(act: () => Promise<T>): Promise<T> {
    if (!this.isAlive) return new Promise(() => undefined);
    return new Promise((resolve, reject) => {
      act().then(
        (value) => this.isAlive && resolve(value),
        (error: unknown) => this.isAlive && reject(error as Error),
      );
    });
  }

  #mortalClock(clock: Clock): Clock {
    return {
      now: () => clock.now(),
      monotonicMs: () => clock.monotonicMs(),
      isSettled: () => true,
      random: () => clock.random(),
      after: (ms, run) => clock.after(ms, () => this.isAlive && run()),
      sleep: (ms, signal) => this.#ifAlive(() => clock.sleep(ms, signal)),
    };
  }

  #mortalDriver(driver: Driver, mutation: Mutation | null): Driver {
    const mortalSink = (sink: ReplicaSink): ReplicaSink => ({
      event: (event) => this.isAlive && sink.event(event),
      lines: (lines) => (this.isAlive ? sink.lines(lines) : Promise.resolve()),
    });
    return {
      name: driver.name,
      installationId: driver.installationId,
      zygotes: null,
      isShared: driver.isShared,
      capabilities: driver.capabilities,
      get pools() {
        return driver.pools;
      },
      collectStorage: (...given) => driver.collectStorage(...given),
      open: (sink) => this.#ifAlive(() => driver.open(mortalSink(sink))),
      start: (spec, signal) => this.#ifAlive(() => driver.start(spec, signal)),
      stop: (replicaId, options) => this.#ifAlive(() => driver.stop(replicaId, options)),
      whyUnreached: (replicaId) => this.#ifAlive(() => driver.whyUnreached(replicaId)),
      exec: (...given) => this.#ifAlive(() => driver.exec(...given)),
      list: () => this.#ifAlive(() => driver.list()),
      outage: () => (mutation === "outages are not seen" ? null : driver.outage()),
      usage: () => this.#ifAlive(() => driver.usage()),
      forget: (replicaId) => this.#ifAlive(() => driver.forget(replicaId)),
      close: () => this.#ifAlive(() => driver.close()),
    };
  }

  #mortalRows(rows: MemoryRows, mutation: Mutation | null): ReplicaRows {
    const isJudged = mutation === "rows of others are taken for its own";
    const isDropped = (kind: string): boolean =>
      kind === "stopped" && mutation === "ends are not recorded";
    return {
      insert: (row) =>
        this.#ifAlive(() =>
          mutation === "starts are not recorded" ? Promise.resolve() : rows.insert(row),
        ),
      change: (replicaId, change) =>
        this.#ifAlive(() =>
          isDropped(change.kind) ? Promise.resolve() : rows.change(replicaId, change),
        ),
      seen: (heartbeats) => this.#ifAlive(() => rows.seen(heartbeats)),
      alive: (backend) =>
        this.#ifAlive(async () => {
          const alive = isJudged ? await rows.aliveOfAll() : await rows.alive(backend);
          return mutation === "orders to end are forgotten"
            ? alive.map((row) => ({ ...row, endOrder: null }))
            : alive;
        }),
      countOthers: (backend) => this.#ifAlive(() => rows.countOthers(backend)),
      scaling: () => this.#ifAlive(async () => forgotten(await rows.scaling(), mutation)),
      saveScaling: (changed, removed) => this.#ifAlive(() => rows.saveScaling(changed, removed)),
      release: (releaseId) => this.#ifAlive(() => rows.release(releaseId)),
    };
  }
}

function forgotten(
  rows: readonly StoredScaling[],
  mutation: Mutation | null,
): readonly StoredScaling[] {
  if (mutation === "failed starts are forgotten")
    return rows.map((row) => ({ ...row, release_id: null }));
  return mutation === "cooldowns are forgotten"
    ? rows.filter((row) => row.release_id !== null)
    : rows;
}

function demandFor(proxy: ModelProxy, mutation: Mutation | null): DemandSource {
  if (mutation !== "waiting calls are not seen") return proxy;
  return {
    demandOf: (appId): Demand => ({
      ...proxy.demandOf(appId),
      running: 0,
      waiting: 0,
      lastActiveAtMs: null,
    }),
  };
}
