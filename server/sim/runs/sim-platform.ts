// One process of the platform in the simulation: real `Runs` and a real useCases on a database
// whose every statement goes through the gate, with a played proxy. It can be killed between any
// two things that happen to it, and can stand still: then all that comes to it waits, while what it
// had sent to the database is carried out.
import type { Clock } from "#lib/clock.ts";
import { requestCancel } from "#deploy/end-builds.ts";
import { silentLog, type Log } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { DeadlineExceeded } from "#lib/with-deadline.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { RunUseCases } from "#runs/run-use-cases.ts";
import { Runs, type RunsOptions } from "#runs/runs.ts";
import { Outbox } from "#webhooks/outbox.ts";
import type { Seeded } from "#test/support/seeded.ts";
import { ConnectionBroken, type Gate } from "./gate.ts";
import { PlayedHeldRuns, type PlayedHeldRunsOptions } from "./played-held-runs.ts";
import { PlayedProxy, type PlayedProxyOptions } from "./played-proxy.ts";
import type { Replicas, SimApp } from "./replicas.ts";
import type { Owner } from "./sim-connection.ts";

export type SimPlatformOptions = {
  /** The id of the data folder, which is the same after a restart. */
  readonly instanceId: string;
  /** The name of this process. */
  readonly name: string;
  readonly clock: Clock;
  readonly seeded: Seeded;
  readonly gate: Gate;
  readonly replicas: Replicas;
  readonly routes: RunsOptions["routes"];
  readonly appOf: (appId: AppId) => SimApp;
  readonly events: Pick<PlayedProxyOptions, "onFault"> &
    Pick<PlayedHeldRunsOptions, "onHeard" | "onLost" | "onAcknowledged">;
  /** Something was logged that is a bug. */
  readonly onBug: (message: string, error: unknown) => void;
};

/** The length of a lease; short, so that a stall is longer. */
const leaseMs = 4_000;
const sealer = new Sealer(["5".repeat(64)]);
const bytesMax = 1_048_576;

/** `start()`, then `kill()` or `stop()`. */
export class SimPlatform implements Owner {
  readonly name: string;
  readonly instanceId: string;
  readonly runs: Runs;
  readonly useCases: RunUseCases;
  readonly proxy: PlayedProxy;
  readonly heldRuns: PlayedHeldRuns;
  isDead = false;
  isStalled = false;
  isStarted = false;
  isStopping = false;
  /** What its own clock shows too much. */
  skewMs = 0;
  readonly #gate: Gate;
  readonly #late: (() => void)[] = [];
  readonly #listeners = new Map<string, Set<(payload: string | null) => void>>();

  constructor(options: SimPlatformOptions) {
    const { gate, seeded, replicas, routes, appOf, events, instanceId, name } = options;
    this.name = name;
    this.instanceId = instanceId;
    this.#gate = gate;
    const clock = this.#ownClock(options.clock);
    const log = logTo(options.onBug);
    const db = gate.databaseFor(this);
    const enter = (run: () => void): void => this.enter(run);
    this.proxy = new PlayedProxy({ name, clock, seeded, replicas, appOf, enter, ...events });
    this.heldRuns = new PlayedHeldRuns({ clock, seeded, replicas, enter, ...events });
    // Deliveries are written as they are, and sent by nobody.
    const dispatcher = { noteWaiting: () => undefined };
    const outbox = new Outbox({ db, sealer, dispatcher, clock, log, onStep: () => undefined });
    this.runs = new Runs({
      ownerKeyOf: (projectId) => Promise.resolve(projectId),
      storeRefusal: () => null,
      db,
      sealer,
      instanceId,
      routes,
      outbox,
      leaseMs,
      clock,
      log,
      notifications: { listen: (channel, run) => this.#listen(channel, run) },
      proxy: this.proxy,
      calledApps: this.proxy,
      heldRuns: this.heldRuns,
      bodyBytesMax: bytesMax,
      answerBytesMax: bytesMax,
      runsAtOnce: 20,
      lineLength: 1000,
      scheduler: {
        endStuck: () => undefined,
        brokeOff: () => Promise.resolve(null),
        isReclaimed: () => false,
      },
      isStopped: () => false,
      onStep: () => undefined,
    });
    this.useCases = new RunUseCases({
      db,
      clock,
      log,
      resultRetentionDays: 7,
      resultBytesMax: bytesMax,
      cancelWaitMs: 1,
      onCancelled: (runId: RunId) => this.runs.cancel(runId),
      builds: { requestCancel },
    });
  }

  get isAble(): boolean {
    return this.isStarted && !this.isDead && !this.isStalled && !this.isStopping;
  }

  /** Rejects when the database breaks off; then the process is to be killed. */
  async start(): Promise<void> {
    await this.runs.prepare();
    this.runs.start();
    this.isStarted = true;
  }

  /** As SIGTERM does. */
  async stop(): Promise<void> {
    this.isStopping = true;
    await this.runs.drain(5_000);
    await this.runs.stop();
  }

  /** As SIGKILL does. */
  async kill(): Promise<void> {
    this.isDead = true;
    this.proxy.hangUp();
    this.heldRuns.hangUp();
    await this.#gate.drop(this);
  }

  stall(): void {
    this.isStalled = true;
  }

  /** All that came meanwhile happens now, one after the other. */
  async wake(settled: () => Promise<void>): Promise<void> {
    while (!this.isDead) {
      const run = this.#late.shift();
      if (run === undefined) break;
      run();
      await settled();
    }
    this.isStalled = false;
  }

  enter(run: () => void): void {
    if (this.isDead) return;
    if (this.isStalled) this.#late.push(run);
    else run();
  }

  /** A notification has come; null: some may have been missed. */
  notified(channel: string, payload: string | null): void {
    this.enter(() => {
      for (const run of this.#listeners.get(channel) ?? []) run(payload);
    });
  }

  #listen(channel: string, run: (payload: string | null) => void): () => void {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(run));
    return () => listeners.delete(run);
  }

  #ownClock(clock: Clock): Clock {
    const after = (ms: number, run: () => void): (() => void) => {
      let isCancelled = false;
      const cancel = clock.after(ms, () =>
        this.enter(() => {
          if (!isCancelled) run();
        }),
      );
      return () => {
        isCancelled = true;
        cancel();
      };
    };
    return {
      now: () => clock.now() + this.skewMs,
      monotonicMs: () => clock.monotonicMs(),
      isSettled: () => true,
      random: () => clock.random(),
      after,
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          const fail = (): void => reject(signal?.reason as Error);
          if (signal?.aborted === true) return fail();
          const cancel = after(ms, () => {
            signal?.removeEventListener("abort", onAbort);
            resolve();
          });
          const onAbort = (): void => {
            cancel();
            fail();
          };
          signal?.addEventListener("abort", onAbort, { once: true });
        }),
    };
  }
}

/** A log that tells errors which are not the simulation's own doing. */
function logTo(onBug: (message: string, error: unknown) => void): Log {
  const log = Object.create(silentLog) as Log;
  const error = (context: { readonly err?: unknown }, message: string): void => {
    const { err } = context;
    const { cause } = err instanceof Error ? err : {};
    // Statements that the world holds back come too late.
    const isOurs = [err, cause].some(
      (one) => one instanceof ConnectionBroken || one instanceof DeadlineExceeded,
    );
    if (!isOurs) onBug(message, err);
  };
  return Object.assign(log, { error });
}
