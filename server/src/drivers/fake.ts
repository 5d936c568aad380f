// A driver whose replicas exist in memory only, for tests and simulations of what stands above drivers. Time comes from
// the clock that it is given; a script says what each replica does. It passes the conformance suite of the real ones.
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import {
  StartRefused,
  type Address,
  type Capabilities,
  type Driver,
  type OwnedReplica,
  type ReplicaEvent,
  type ReplicaSink,
  type ReplicaSpec,
} from "./driver.ts";

/** What a replica does, by its own time. */
export type FakeScript = {
  /** Why it cannot be started, null: it can. */
  readonly refusal: string | null;
  /** How long `start` takes. */
  readonly startMs: number;
  /** From then on; null: it never becomes ready. */
  readonly readyMs: number | null;
  /** When it ends by itself, from its start on; null: it does not. */
  readonly exit: { readonly afterMs: number; readonly exitCode: number; readonly reason: string } | null;
  /** How long it takes to end when it is asked to; null: it does not. */
  readonly stopMs: number | null;
  /** Printed when it starts. */
  readonly lines: readonly string[];
};

/** Starts at once, is ready at once, ends at once when it is asked to. */
export const fakeDefaults: FakeScript = { refusal: null, startMs: 0, readyMs: 0, exit: null, stopMs: 0, lines: [] };

type FakeReplica = {
  readonly spec: ReplicaSpec;
  readonly address: Address;
  readonly unread: string[];
  hasStarted: boolean;
  isReady: boolean;
  isAsked: boolean;
  /** How it ended; null while it runs. */
  end: { readonly exitCode: number | null; readonly signal: string | null; readonly reason: string } | null;
  isEndTold: boolean;
  isTelling: boolean;
  readonly gone: PromiseWithResolvers<void>;
};

/** Where fake replicas live; several drivers, one after the other, may stand on it, as processes of the platform do. */
export class FakeGround {
  /** Of the driver that is open. */
  sink: ReplicaSink | null = null;
  readonly replicas = new Map<ReplicaId, FakeReplica>();
  nextPort = 1;
}

const everything: Capabilities = {
  dockerfile: true,
  baseImage: true,
  aptPackages: true,
  condaPackages: true,
  memoryLimit: true,
  cpuLimit: true,
  fileIsolation: true,
  networkIsolation: true,
  compute: ["CPU"],
};

/** See `driver.ts` for what each method promises. */
export class FakeDriver implements Driver {
  readonly name = "fake";
  readonly capabilities: Capabilities;
  readonly #ground: FakeGround;
  readonly #clock: Clock;
  readonly #script: (spec: ReplicaSpec) => FakeScript;
  readonly #starting = new Map<ReplicaId, { readonly done: Promise<void>; readonly abort: AbortController }>();

  constructor(options: {
    readonly clock: Clock;
    readonly script?: (spec: ReplicaSpec) => FakeScript;
    readonly ground?: FakeGround;
    readonly capabilities?: Capabilities;
  }) {
    this.#clock = options.clock;
    this.#script = options.script ?? (() => fakeDefaults);
    this.#ground = options.ground ?? new FakeGround();
    this.capabilities = options.capabilities ?? everything;
  }

  open(sink: ReplicaSink): Promise<void> {
    this.#ground.sink = sink;
    for (const replica of this.#ground.replicas.values()) void this.#tellRest(replica);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#ground.sink = null;
    return Promise.resolve();
  }

  start(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    const starting = this.#starting.get(spec.replicaId);
    if (starting !== undefined) return starting.done;
    if (this.#ground.replicas.has(spec.replicaId)) return Promise.resolve();
    const abort = new AbortController();
    const ended = AbortSignal.any([signal, abort.signal]);
    const done = this.#start(spec, ended).finally(() => this.#starting.delete(spec.replicaId));
    this.#starting.set(spec.replicaId, { done, abort });
    return done;
  }

  async stop(replicaId: ReplicaId, options: { readonly graceMs: number }): Promise<void> {
    const starting = this.#starting.get(replicaId);
    starting?.abort.abort();
    await starting?.done.catch(() => undefined);
    const replica = this.#ground.replicas.get(replicaId);
    if (replica === undefined || replica.isEndTold) return;
    const { stopMs } = this.#script(replica.spec);
    if (!replica.isAsked && stopMs !== null) {
      this.#clock.after(stopMs, () =>
        this.#end(replica, { exitCode: 0, signal: null, reason: "The replica was stopped." }),
      );
    }
    replica.isAsked = true;
    const forced = {
      exitCode: null,
      signal: "SIGKILL",
      reason: "The replica did not end in time and was ended by force.",
    };
    this.#clock.after(options.graceMs, () => this.#end(replica, forced));
    await replica.gone.promise;
  }

  list(): Promise<readonly OwnedReplica[]> {
    const replicas = [...this.#ground.replicas.values()];
    return Promise.resolve(
      replicas.map(({ spec, address, hasStarted, isReady, isEndTold, end }) => ({
        replicaId: spec.replicaId,
        appId: spec.appId,
        releaseId: spec.releaseId,
        state: isEndTold ? "exited" : "running",
        address: hasStarted ? address : null,
        isReady,
        reason: isEndTold ? (end?.reason ?? null) : null,
      })),
    );
  }

  forget(replicaId: ReplicaId): Promise<void> {
    if (this.#ground.replicas.get(replicaId)?.isEndTold === true) this.#ground.replicas.delete(replicaId);
    return Promise.resolve();
  }

  /** Ends a running replica as a crash does. */
  crash(replicaId: ReplicaId): void {
    const replica = this.#ground.replicas.get(replicaId);
    if (replica !== undefined)
      this.#end(replica, { exitCode: null, signal: "SIGSEGV", reason: "The app was ended by SIGSEGV." });
  }

  /** Prints lines as a running replica. */
  print(replicaId: ReplicaId, lines: readonly string[]): void {
    const replica = this.#ground.replicas.get(replicaId);
    if (replica === undefined || replica.end !== null) return;
    replica.unread.push(...lines);
    void this.#tellRest(replica);
  }

  async #start(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    const script = this.#script(spec);
    if (!signal.aborted) await this.#clock.sleep(script.startMs, signal).catch(() => undefined);
    if (signal.aborted) throw new StartRefused("The start was cancelled.");
    if (script.refusal !== null) throw new StartRefused(script.refusal);
    const replica: FakeReplica = {
      spec,
      address: { host: "127.0.0.1", port: this.#ground.nextPort++ },
      unread: [...script.lines],
      hasStarted: true,
      isReady: false,
      isAsked: false,
      end: null,
      isEndTold: false,
      isTelling: false,
      gone: Promise.withResolvers<void>(),
    };
    this.#ground.replicas.set(spec.replicaId, replica);
    this.#tell({
      kind: "started",
      replicaId: spec.replicaId,
      at: this.#clock.now(),
      address: replica.address,
      hint: null,
    });
    const { exit, readyMs } = script;
    if (exit !== null) {
      this.#clock.after(exit.afterMs, () =>
        this.#end(replica, { exitCode: exit.exitCode, signal: null, reason: exit.reason }),
      );
    }
    if (readyMs !== null) this.#clock.after(readyMs, () => this.#becomeReady(replica));
    void this.#tellRest(replica);
  }

  #becomeReady(replica: FakeReplica): void {
    if (replica.end !== null) return;
    replica.isReady = true;
    this.#tell({ kind: "ready", replicaId: replica.spec.replicaId, at: this.#clock.now(), address: replica.address });
  }

  #end(replica: FakeReplica, end: NonNullable<FakeReplica["end"]>): void {
    if (replica.end !== null) return;
    replica.end = end;
    void this.#tellRest(replica);
  }

  /** Lines first, one handing over at a time, then the end. */
  async #tellRest(replica: FakeReplica): Promise<void> {
    if (replica.isTelling || this.#ground.sink === null || replica.isEndTold) return;
    replica.isTelling = true;
    const { replicaId } = replica.spec;
    const sink = this.#ground.sink;
    while (replica.unread.length > 0) {
      const texts = replica.unread.splice(0);
      const at = this.#clock.now();
      await sink.lines(texts.map((text) => ({ replicaId, at, stream: "stdout", runId: null, text })));
    }
    replica.isTelling = false;
    if (replica.end === null || replica.isEndTold || this.#ground.sink === null) return;
    replica.isEndTold = true;
    this.#tell({ kind: "exited", replicaId, at: this.#clock.now(), ...replica.end });
    replica.gone.resolve();
  }

  #tell(event: ReplicaEvent): void {
    this.#ground.sink?.event(event);
  }
}
