// The simulated world of async runs: platforms over one real database, replicas, callers, and
// everything that goes wrong, all drawn from one seed; and the promises, checked after everything
// that the database did.
import { formatAddress } from "#drivers/address.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { platformActor } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { isFinal } from "#runs/run-states.ts";
import { Seeded } from "#test/support/seeded.ts";
import { settled, VirtualClock } from "#test/support/virtual-clock.ts";
import type { Mutation } from "./faults.ts";
import { Gate } from "./gate.ts";
import { Ledger, type RunFacts } from "./ledger.ts";
import { Replicas, type SimReplica } from "./replicas.ts";
import { newApp, projectId, type RoutedApp } from "./sim-apps.ts";
import type { SimDatabase } from "./sim-database.ts";
import { SimPlatform } from "./sim-platform.ts";

export type WorldOptions = {
  readonly database: SimDatabase;
  readonly seed: number;
  /** How many things happen before it becomes quiet. */
  readonly events: number;
  readonly mutation?: Mutation;
};

/** What happened, for a look at whether the simulation is worth something. */
export type WorldReport = {
  accepted: number;
  refused: number;
  success: number;
  failure: number;
  timeout: number;
  cancelled: number;
  kills: number;
  stops: number;
  stalls: number;
  takenOver: number;
  statements: number;
  brokenConnections: number;
  /** Stands for all that happened to all runs: the same for the same seed. */
  digest: string;
};

/** For each retry, lease, deadline and stall to pass, one after the other. */
const quietMsMax = 240_000;
/** For whoever still writes although all has ended. */
const afterglowMs = 12_000;

/** Runs one seed to its end. Throws `Violation` when a promise is broken. */
export async function runWorld(options: WorldOptions): Promise<WorldReport> {
  await options.database.reset();
  const world = new World(options);
  try {
    await world.run(options.events);
    return world.report();
  } finally {
    await world.close();
  }
}

class World {
  readonly #clock: VirtualClock;
  readonly #seeded: Seeded;
  readonly #database: SimDatabase;
  readonly #gate: Gate;
  readonly #ledger: Ledger;
  readonly #replicas: Replicas;
  readonly #apps: RoutedApp[] = [];
  #platforms: SimPlatform[] = [];
  /** How far the database's clock is ahead of the world's. */
  #databaseAheadMs = 0;
  #processes = 0;
  #runs = 0;
  #begun = 0;
  #isQuiet = false;
  /**
   * What is to be done between two steps: nothing of it may happen while a statement is carried
   * out.
   */
  readonly #next: (() => Promise<void>)[] = [];
  readonly #appOf = new Map<RunId, RoutedApp>();
  readonly #keys = new Map<string, RunId>();
  readonly #counts = { accepted: 0, refused: 0, kills: 0, stops: 0, stalls: 0 };

  constructor({ database, seed, mutation }: WorldOptions) {
    this.#database = database;
    this.#seeded = new Seeded(seed);
    // The product draws its jitter from a sequence of its own.
    this.#clock = new VirtualClock(new Seeded(seed + 1_000_000).next);
    this.#replicas = new Replicas({ clock: this.#clock, seeded: this.#seeded });
    this.#ledger = new Ledger({
      gate: () => this.#gate,
      replicas: this.#replicas,
      keepsAnswers: (runId) => this.#appOf.get(runId)?.keepsAnswers === true,
      resultOf: (runId) => database.result(runId),
      nowMs: () => this.#clock.monotonicMs(),
    });
    this.#gate = new Gate({
      database,
      seeded: this.#seeded,
      mutation: mutation ?? null,
      afterEach: async () => this.#ledger.apply(await database.look()),
      onNotify: (channel, payload) => this.#spread(channel, payload),
    });
  }

  report(): WorldReport {
    const ended = { success: 0, failure: 0, timeout: 0, cancelled: 0 };
    for (const { state } of this.#ledger.runs.values()) if (isFinal(state)) ended[state]++;
    const { carriedOut: statements, broken: brokenConnections } = this.#gate;
    const { takenOver } = this.#ledger;
    return {
      ...this.#counts,
      ...ended,
      takenOver,
      statements,
      brokenConnections,
      digest: this.#ledger.digest(),
    };
  }

  /** Nothing of it goes on, however it has ended. */
  async close(): Promise<void> {
    for (const platform of this.#platforms) await platform.kill();
    await this.#gate.close();
    await settled();
  }

  async run(events: number): Promise<void> {
    const seeded = this.#seeded;
    await this.#database.stock();
    for (const keepsAnswers of [true, false]) await this.#addApp(keepsAnswers);
    for (let number = 1; number <= seeded.integer(2, 3); number++)
      this.#startPlatform(`instance-${number}`);
    this.#gate.breakChance = seeded.pick([0, 0.01, 0.04]);
    for (let event = 0; event < events;) {
      await this.#database.stock();
      const draw = seeded.next();
      if (draw < 0.86 && this.#gate.isBusy) await this.#letThrough();
      else if (draw < 0.93)
        await this.#advance(seeded.integer(1, seeded.chance(0.1) ? 2_000 : 200));
      else {
        event++;
        await this.#happen();
      }
      await this.#settle();
    }
    await this.#comeToRest();
  }

  async #letThrough(): Promise<void> {
    this.#database.timeMs = this.#clock.monotonicMs() + this.#databaseAheadMs;
    await this.#gate.step();
  }

  async #advance(ms: number): Promise<void> {
    await this.#clock.advance(ms, () => this.#noteBegun());
  }

  /** All that follows from what happened has happened. */
  async #settle(): Promise<void> {
    await settled();
    for (let act = this.#next.shift(); act !== undefined; act = this.#next.shift()) {
      await act();
      await settled();
    }
    this.#noteBegun();
    this.#ledger.check();
  }

  #noteBegun(): void {
    for (const call of this.#replicas.calls.slice(this.#begun)) this.#ledger.begun(call);
    this.#begun = this.#replicas.calls.length;
  }

  async #happen(): Promise<void> {
    const seeded = this.#seeded;
    const draw = seeded.next();
    if (draw < 0.5) this.#call();
    else if (draw < 0.62) this.#cancel();
    else if (draw < 0.7) await this.#kill();
    else if (draw < 0.73) this.#stop();
    else if (draw < 0.83) this.#stall();
    else if (draw < 0.88) await this.#crashReplica();
    else if (draw < 0.91) this.#setDatabaseClock();
    else if (draw < 0.94) this.#setPlatformClock();
    else if (draw < 0.97) for (const one of this.#platforms) one.notified("runs", null);
    else await this.#advance(seeded.integer(500, 6_000));
  }

  // What callers do.

  #call(): void {
    const seeded = this.#seeded;
    const able = this.#platforms.filter((one) => one.isAble);
    if (able.length === 0) return;
    const platform = seeded.pick(able);
    const calls = seeded.integer(1, 3);
    for (let count = 0; count < calls; count++) this.#callOne(platform);
  }

  #callOne(platform: SimPlatform): void {
    const seeded = this.#seeded;
    const app = seeded.pick(this.#apps);
    const runId = `00000000-0000-4000-8000-${String(++this.#runs).padStart(12, "0")}` as RunId;
    this.#appOf.set(runId, app);
    const key = seeded.chance(0.15) ? `key-${seeded.integer(1, 4)}` : null;
    const body = Buffer.from(key ?? `body of ${this.#runs}`);
    platform.runs.accept({
      runId,
      route: app.route,
      method: "POST",
      path: "/predict?n=1",
      lines: "",
      clientAddress: "203.0.113.1",
      webhookEndpoint: seeded.chance(0.5) ? "https://receiver.example/hook" : null,
      webhookSecret: null,
      idempotencyKey: key,
      retries: seeded.chance(0.5) ? 0 : seeded.integer(1, 3),
      contentLength: body.length,
      readBody: () => Promise.resolve(body),
      accepted: (as) => {
        this.#counts.accepted++;
        this.#ledger.accepted(as);
        if (key === null) return;
        const known = this.#keys.get(`${app.appId} ${key}`) ?? as;
        this.#keys.set(`${app.appId} ${key}`, known);
        this.#ledger.expect(known === as, as, `was accepted for ${key}, which stands for ${known}`);
      },
      refuse: () => this.#counts.refused++,
    });
  }

  #cancel(): void {
    const able = this.#platforms.filter((one) => one.isAble);
    const open = [...this.#ledger.runs].filter(([, run]) => !isFinal(run.state));
    if (able.length === 0 || open.length === 0) return;
    const [runId] = this.#seeded.pick(open);
    const appId = this.#appOf.get(runId)?.appId;
    if (appId === undefined) return;
    this.#ledger.cancelAsked(runId);
    this.#ledger.tell(runId, "somebody wants it to be cancelled");
    const asked = this.#seeded
      .pick(able)
      .useCases.cancel({ projectId, appId, runId }, { actor: platformActor });
    asked.catch((error: unknown) => {
      if (error instanceof Fault && error.code === "conflict") return;
      // A broken connection: the caller gets a 500 and may try again.
    });
  }

  // What happens to platforms.

  #startPlatform(instanceId: string): void {
    const name = `${instanceId}/${++this.#processes}`;
    const ledger = this.#ledger;
    const platform: SimPlatform = new SimPlatform({
      instanceId,
      name,
      clock: this.#clock,
      seeded: this.#seeded,
      gate: this.#gate,
      replicas: this.#replicas,
      routes: { byAppId: (appId: AppId) => this.#apps.find((app) => app.appId === appId)?.route },
      appOf: (appId) => this.#appById(appId),
      events: {
        onHeard: (call) => ledger.heard(name, call),
        onLost: (heldId) => ledger.lost(name, heldId),
        onFault: (runId, code) => ledger.reported(name, runId, `It ended with ${code}.`),
        onAcknowledged: (call) => ledger.acknowledged(name, call),
      },
      onBug: (message, error) =>
        ledger.expect(false, null, `${name} logged: ${message}: ${textOf(error)}`),
    });
    this.#platforms.push(platform);
    // A start that fails ends the process, and whoever watches it starts it again.
    platform.start().catch(() => this.#next.push(() => this.#replace(platform)));
  }

  async #replace(platform: SimPlatform): Promise<void> {
    if (!this.#platforms.includes(platform)) return;
    this.#platforms = this.#platforms.filter((one) => one !== platform);
    const isClean = platform.isDead;
    await platform.kill();
    if (this.#isQuiet || isClean) this.#startPlatform(platform.instanceId);
    else
      this.#clock.after(this.#seeded.integer(0, 8_000), () =>
        this.#startPlatform(platform.instanceId),
      );
  }

  async #kill(): Promise<void> {
    if (this.#platforms.length === 0) return;
    this.#counts.kills++;
    await this.#replace(this.#seeded.pick(this.#platforms));
  }

  #stop(): void {
    const able = this.#platforms.filter((one) => one.isAble);
    if (able.length === 0) return;
    this.#counts.stops++;
    const platform = this.#seeded.pick(able);
    void platform.stop().then(() => this.#next.push(() => this.#replace(platform)));
  }

  #stall(): void {
    const able = this.#platforms.filter((one) => one.isAble);
    if (able.length === 0) return;
    this.#counts.stalls++;
    const platform = this.#seeded.pick(able);
    platform.stall();
    this.#clock.after(this.#seeded.integer(100, 12_000), () =>
      this.#next.push(() => platform.wake(settled)),
    );
  }

  #setDatabaseClock(): void {
    const ms = this.#seeded.integer(-10_000, 10_000);
    this.#databaseAheadMs += ms;
    if (ms > 0) for (const run of this.#ledger.runs.values()) markCut(run);
  }

  #setPlatformClock(): void {
    if (this.#platforms.length === 0) return;
    this.#seeded.pick(this.#platforms).skewMs = this.#seeded.integer(-3_600_000, 3_600_000);
  }

  #spread(channel: string, payload: string): void {
    for (const platform of this.#platforms) {
      // Word may get lost: then it takes longer, and nothing else.
      if (!this.#isQuiet && this.#seeded.chance(0.1)) continue;
      this.#clock.after(this.#seeded.integer(0, 5), () => platform.notified(channel, payload));
    }
  }

  // Apps and replicas.

  async #addApp(keepsAnswers: boolean): Promise<void> {
    const app = newApp(this.#seeded, keepsAnswers);
    this.#apps.push(app);
    for (let count = 0; count < 2; count++) await this.#addReplica(app);
  }

  #appById(appId: AppId): RoutedApp {
    const app = this.#apps.find((one) => one.appId === appId);
    if (app === undefined) throw new Error(`there is no app ${appId}`);
    return app;
  }

  async #addReplica(app: RoutedApp): Promise<void> {
    const { ready } = this.#replicas.add(app);
    await this.#database.query(
      `insert into public.replicas (id, project_id, app_id, release_id, build_id, driver, state, address, compute,
                                    compute_tier, gpu_count, cpu_cores, memory_gb)
       values ($1, $2, $3, $4, $4, 'fake', 'ready', $5, 'CPU', 'interruptible', 0, 1, 1)`,
      [ready.replicaId, projectId, app.appId, app.releaseId, formatAddress(ready.address)],
    );
  }

  async #crashReplica(): Promise<void> {
    const alive = this.#replicas.all.filter((one) => one.isAlive);
    const replica = this.#seeded.pick(alive);
    this.#replicas.crash(replica);
    await this.#addReplica(this.#appById(replica.ready.appId));
    // It takes a while until it is noticed.
    if (this.#seeded.chance(0.5)) await this.#recordStop(replica);
  }

  async #recordStop({ ready }: SimReplica): Promise<void> {
    await this.#database.query(
      "update public.replicas set state = 'stopped', stopped_at = now() where id = $1",
      [ready.replicaId],
    );
  }

  // The end.

  async #comeToRest(): Promise<void> {
    this.#isQuiet = true;
    this.#gate.breakChance = 0;
    this.#replicas.isCalm = true;
    const beganMs = this.#clock.monotonicMs();
    const openRuns = (): RunId[] =>
      [...this.#ledger.runs].filter(([, run]) => !isFinal(run.state)).map(([runId]) => runId);
    while (openRuns().length > 0) {
      const [stuck] = openRuns();
      const isLate = this.#clock.monotonicMs() - beganMs > quietMsMax;
      this.#ledger.expect(!isLate, stuck ?? null, `is stuck: ${openRuns().length} runs do not end`);
      await this.#pass(500);
    }
    for (let passedMs = 0; passedMs < afterglowMs; passedMs += 1_000) await this.#pass(1_000);
    for (const { name, proxy } of this.#platforms) {
      this.#ledger.expect(
        proxy.openCount === 0,
        null,
        `${proxy.openCount} calls of ${name} are never over`,
      );
      this.#ledger.expect(
        proxy.holds === 0,
        null,
        `${name} holds ${proxy.holds} replicas for ever`,
      );
    }
    this.#ledger.check();
    await this.#stopAll();
  }

  async #stopAll(): Promise<void> {
    const stopping = new Set(this.#platforms);
    for (const platform of this.#platforms)
      void platform.stop().then(() => stopping.delete(platform));
    for (let passedMs = 0; stopping.size > 0; passedMs += 100) {
      const names = [...stopping].map(({ name }) => name).join(", ");
      this.#ledger.expect(passedMs < 30_000, null, `${names} cannot be stopped`);
      await this.#pass(100);
    }
    for (const platform of this.#platforms) await platform.kill();
    await this.#pass(1);
  }

  /** Time goes by, and the database does all that is asked of it. */
  async #pass(ms: number): Promise<void> {
    while (this.#gate.isBusy) {
      await this.#database.stock();
      await this.#letThrough();
      await this.#settle();
    }
    await this.#advance(ms);
    await this.#settle();
  }
}

function markCut(run: RunFacts): void {
  if (run.state === "running" || run.state === "queued") run.isLeaseCut = true;
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
