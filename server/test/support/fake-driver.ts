// A driver whose replicas exist only in memory, for tests and simulations of the layers above
// drivers. It uses the given clock, and a script defines how each start goes. Replicas outlive the
// platform's process like real ones: `open` of the next process finds them. It passes the same
// conformance suite as real drivers.
import {
  StartRefused,
  type Address,
  type Capabilities,
  type Driver,
  type Outage,
  type OwnedReplica,
  type RefusalKind,
  type ReplicaEvent,
  type ReplicaSink,
  type ReplicaSpec,
  type ReplicaUsage,
} from "#drivers/driver.ts";
import { ExecRefused, type RunningExec } from "#drivers/exec.ts";
import type { PoolWish } from "#drivers/pools/choose-pool.ts";
import type { CardClaim, CardPool } from "#drivers/pools/cards.ts";
import { Placement } from "#drivers/pools/placement.ts";
import type { PoolRequest } from "#drivers/pools/pool.ts";
import type { Capacity, Pools } from "#drivers/pools/pools.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { tcpAddress } from "./replica-address.ts";
import { widePlacement } from "./wide-placement.ts";

/**
 * How a start goes. All times count from the call of `start`; `pendingMs` is added to those after
 * it.
 */
export type StartScript = {
  /** How long `start` takes. */
  readonly createMs: number;
  /** Null: it can be started. */
  readonly refusal: { readonly kind: RefusalKind; readonly reason: string } | null;
  /** How long it waits for a machine; null: forever. */
  readonly pendingMs: number | null;
  /** Null: it never becomes ready. */
  readonly readyMs: number | null;
  /** It exits on its own. */
  readonly exit: { readonly afterMs: number; readonly exitCode: number } | null;
  /** A hint that the driver reports after the start. */
  readonly hint: string | null;
  /** It ends only by force, not when asked. */
  readonly isStubborn: boolean;
  /** Printed when it starts. */
  readonly lines: readonly string[];
};

/** Starts and becomes ready immediately, and ends when asked. */
export const goodScript: StartScript = {
  createMs: 0,
  refusal: null,
  pendingMs: 0,
  readyMs: 0,
  exit: null,
  hint: null,
  isStubborn: false,
  lines: [],
};

/** `exit`: on its own, whether asked or not. */
export type ExitCause = "exit" | "forced" | "crash";

type End = {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly reason: string;
};

/** One replica that exists, or has ended and is not forgotten yet. */
export type FakeReplica = {
  readonly spec: ReplicaSpec;
  readonly script: StartScript;
  readonly address: Address;
  readonly claim: CardClaim;
  /** Lines that were not delivered yet. */
  readonly unread: string[];
  state: "pending" | "running" | "ended";
  isReady: boolean;
  /** When it was asked to end, in monotonic time. */
  askedAtMs: number | null;
  graceMs: number;
  end: End | null;
  isEndTold: boolean;
  /** The delivery of its lines, while it goes on. */
  telling: Promise<void> | null;
  usage: ReplicaUsage;
  readonly gone: PromiseWithResolvers<void>;
};

/** A driver may know better than its pools: there is nothing of what is `full`. */
class FakePlacement extends Placement {
  readonly #full: ReadonlySet<string>;

  constructor(pools: readonly CardPool[], full: ReadonlySet<string>) {
    super(pools);
    this.#full = full;
  }

  override capacity(request: PoolRequest, ahead: readonly PoolWish[]): Capacity {
    const capacity = super.capacity(request, ahead);
    return capacity === "now" && this.#full.has(request.compute) ? "later" : capacity;
  }
}

const everything: Capabilities = {
  dockerfile: true,
  baseImage: true,
  aptPackages: true,
  condaPackages: true,
  memoryLimit: true,
  cpuLimit: true,
  egress: { canLimit: true, allowed: [] },
  storagePaths: true,
  containerRuntimes: null,
};

export type FakeDriverOptions = {
  readonly clock: Clock;
  readonly script?: (spec: ReplicaSpec) => StartScript;
  /** The compute types of which there is more than anybody needs. */
  readonly compute?: readonly string[];
  /** Instead of `compute`. */
  readonly pools?: readonly CardPool[];
  /** False: undelivered lines are lost when a replica ends, as when a pod is gone with its log. */
  readonly keepsLines?: boolean;
};

/** Several platform processes may open and close it, one after the other. */
export class FakeDriver implements Driver {
  readonly zygotes = null;
  readonly name = "fake" as const;
  readonly isShared = true;
  readonly installationId = "fake";
  /** Meanwhile it answers nothing. */
  currentOutage: Outage | null = null;
  readonly capabilities: Capabilities = everything;
  /** The placement of the process that has the driver open. */
  placement: Placement;
  /** Every id that was ever accepted. */
  readonly started = new Set<ReplicaId>();
  /** Compute types without free capacity: starts are refused. */
  readonly full = new Set<string>();
  /** Where its replicas listen instead of at their address, in a sentence. */
  elsewhere: string | null = null;
  /** Called before a replica ends, whatever the cause. */
  onExit: (replica: FakeReplica, how: ExitCause) => void = () => undefined;
  /** Called when a replica is asked to end. */
  onAsked: (replica: FakeReplica) => void = () => undefined;
  /** Running calls that a well-behaved replica finishes before it ends. */
  busy: (replicaId: ReplicaId) => number = () => 0;
  /** Storages that replicas have made: names of those of projects, ids of apps with their own. */
  readonly storages = new Set<string>();
  readonly #replicas = new Map<ReplicaId, FakeReplica>();
  readonly #starting = new Map<
    ReplicaId,
    { readonly done: Promise<void>; readonly abort: AbortController }
  >();
  readonly #keepsLines: boolean;
  readonly #clock: Clock;
  readonly #script: (spec: ReplicaSpec) => StartScript;
  #sink: ReplicaSink | null = null;

  constructor({
    clock,
    script = () => goodScript,
    compute = ["CPU"],
    pools,
    keepsLines = true,
  }: FakeDriverOptions) {
    this.#clock = clock;
    this.#script = script;
    this.placement = new FakePlacement(pools ?? widePlacement(compute).pools, this.full);
    this.#keepsLines = keepsLines;
  }

  async collectStorage(
    readGone: (storages: readonly string[]) => Promise<readonly string[]>,
    signal: AbortSignal,
  ): Promise<void> {
    for (const gone of await readGone([...this.storages]))
      if (!signal.aborted) this.storages.delete(gone);
  }

  open(sink: ReplicaSink): Promise<void> {
    this.#sink = sink;
    // What an earlier process held for starts that it did not begin is gone with it.
    this.placement = new FakePlacement(this.placement.pools, this.full);
    for (const { spec, claim } of this.running()) this.placement.keep(spec.replicaId, claim);
    // What is left of a replica whose end was told is delivered when it is forgotten.
    for (const replica of this.#replicas.values()) if (!replica.isEndTold) this.#tellAll(replica);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#sink = null;
    return Promise.resolve();
  }

  get pools(): Pools {
    return this.placement;
  }

  outage(): Outage | null {
    return this.currentOutage;
  }

  start(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    const starting = this.#starting.get(spec.replicaId);
    if (starting !== undefined) return starting.done;
    if (this.#replicas.has(spec.replicaId)) return Promise.resolve();
    const abort = new AbortController();
    const done = this.#start(spec, AbortSignal.any([signal, abort.signal])).finally(() => {
      this.#starting.delete(spec.replicaId);
      if (this.#replicas.get(spec.replicaId)?.state === undefined)
        this.placement.release(spec.replicaId);
    });
    this.#starting.set(spec.replicaId, { done, abort });
    return done;
  }

  exec(): Promise<RunningExec> {
    return Promise.reject(new ExecRefused("Replicas that exist only in memory run no commands."));
  }

  whyUnreached(): Promise<string | null> {
    return Promise.resolve(this.elsewhere);
  }

  async stop(replicaId: ReplicaId, { graceMs }: { readonly graceMs: number }): Promise<void> {
    this.#answer();
    const starting = this.#starting.get(replicaId);
    starting?.abort.abort();
    await starting?.done.catch(() => undefined);
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined) this.placement.release(replicaId);
    if (replica === undefined || replica.isEndTold) return;
    const forced = {
      exitCode: null,
      signal: "SIGKILL",
      reason: "It did not end in time and was ended by force.",
    };
    this.#clock.after(graceMs, () => this.#end(replica, forced, "forced"));
    if (replica.askedAtMs === null) {
      replica.askedAtMs = this.#clock.monotonicMs();
      replica.graceMs = graceMs;
      this.onAsked(replica);
      if (!replica.script.isStubborn || replica.state === "pending") this.#endWhenDone(replica);
    }
    await replica.gone.promise;
  }

  async list(): Promise<readonly OwnedReplica[]> {
    this.#answer();
    const own = [...this.#replicas.values()].map(
      ({ spec, address, state, isEndTold, end }): OwnedReplica => ({
        replicaId: spec.replicaId,
        appId: spec.appId,
        releaseId: spec.releaseId,
        state: listedState({ state, isEndTold }),
        address: state === "pending" ? null : address,
        reason: isEndTold ? (end?.reason ?? null) : null,
      }),
    );
    return Promise.resolve(own);
  }

  #answer(): void {
    if (this.currentOutage !== null) throw new Error(this.currentOutage.reason);
  }

  async usage(): Promise<ReadonlyMap<ReplicaId, ReplicaUsage>> {
    this.#answer();
    return await Promise.resolve(
      new Map(
        this.running()
          .filter(({ state }) => state === "running")
          .map(({ spec, usage }) => [spec.replicaId, usage]),
      ),
    );
  }

  async forget(replicaId: ReplicaId): Promise<void> {
    const replica = this.#replicas.get(replicaId);
    if (replica?.isEndTold !== true) return;
    await this.#tellLines(replica);
    if (replica.unread.length === 0) this.#replicas.delete(replicaId);
  }

  /** Crashes a replica; false when it is not running. */
  crash(replicaId: ReplicaId): boolean {
    const replica = this.#replicas.get(replicaId);
    if (replica?.state !== "running") return false;
    this.#end(
      replica,
      { exitCode: null, signal: "SIGSEGV", reason: "It ended with signal SIGSEGV." },
      "crash",
    );
    return true;
  }

  /** Lets a pending replica begin. */
  proceed(replicaId: ReplicaId): void {
    const replica = this.#replicas.get(replicaId);
    if (replica !== undefined) this.#run(replica);
  }

  /** Removes a replica without a trace, as when its machine is lost. */
  vanish(replicaId: ReplicaId): void {
    this.#replicas.delete(replicaId);
    this.placement.release(replicaId);
  }

  /** Prints a line as the replica. */
  async print(replicaId: ReplicaId, text: string): Promise<void> {
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined) return;
    replica.unread.push(text);
    await this.#tellLines(replica);
  }

  /** Whether the replica at this address reports that it is ready. */
  answers(address: Address): boolean {
    const replica = this.#replicas.get(tcpAddress(address).host as ReplicaId);
    return replica?.state === "running" && replica.isReady;
  }

  /** Existing replicas, including pending ones. */
  running(): FakeReplica[] {
    return [...this.#replicas.values()].filter(({ state }) => state !== "ended");
  }

  /** Records of ended replicas that are not forgotten yet. */
  remains(): number {
    return this.#replicas.size - this.running().length;
  }

  async #start(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    const script = this.#script(spec);
    if (!signal.aborted) await this.#clock.sleep(script.createMs, signal).catch(() => undefined);
    if (signal.aborted) throw new StartRefused("The start was cancelled.");
    if (this.currentOutage !== null)
      throw new StartRefused(this.currentOutage.reason, { kind: "no_capacity" });
    if (script.refusal !== null)
      throw new StartRefused(script.refusal.reason, { kind: script.refusal.kind });
    const claim = this.full.has(spec.compute) ? null : this.placement.hold(spec.replicaId, spec);
    if (claim === null) {
      throw new StartRefused(`There is no ${spec.compute} left.`, { kind: "no_capacity" });
    }
    const replica: FakeReplica = {
      spec,
      script,
      claim,
      address: { host: spec.replicaId, port: 1 },
      unread: [...script.lines],
      state: "pending",
      isReady: false,
      askedAtMs: null,
      graceMs: 0,
      end: null,
      isEndTold: false,
      telling: null,
      usage: { cpuSeconds: 0, memoryBytes: 0 },
      gone: Promise.withResolvers<void>(),
    };
    this.#replicas.set(spec.replicaId, replica);
    this.started.add(spec.replicaId);
    this.storages.add(spec.storage);
    if (spec.storagePath !== null) this.storages.add(spec.appId);
    if (script.pendingMs === 0) this.#run(replica);
    else if (script.pendingMs !== null)
      this.#clock.after(script.pendingMs, () => this.#run(replica));
  }

  #run(replica: FakeReplica): void {
    if (replica.state !== "pending") return;
    const { spec, script, address } = replica;
    replica.state = "running";
    const { hint } = script;
    this.#tell({
      kind: "started",
      replicaId: spec.replicaId,
      at: this.#clock.now(),
      address,
      hint,
    });
    const { exit, readyMs } = script;
    const afterMs = (ms: number): number => Math.max(0, ms - script.createMs);
    if (exit !== null) {
      const reason = `It ended with exit code ${exit.exitCode}.`;
      const end = { exitCode: exit.exitCode, signal: null, reason };
      this.#clock.after(afterMs(exit.afterMs), () => this.#end(replica, end, "exit"));
    }
    if (readyMs !== null) this.#clock.after(afterMs(readyMs), () => (replica.isReady = true));
    this.#tellAll(replica);
  }

  #endWhenDone(replica: FakeReplica): void {
    if (replica.state === "ended") return;
    const end = { exitCode: 0, signal: null, reason: "It ended with exit code 0." };
    if (this.busy(replica.spec.replicaId) === 0) this.#end(replica, end, "exit");
    else this.#clock.after(20, () => this.#endWhenDone(replica));
  }

  #end(replica: FakeReplica, end: End, how: ExitCause): void {
    if (replica.state === "ended") return;
    this.onExit(replica, how);
    replica.state = "ended";
    this.placement.release(replica.spec.replicaId);
    replica.end = end;
    if (!this.#keepsLines) replica.unread.length = 0;
    this.#tellAll(replica);
  }

  /** Tells the end at once, and delivers the lines. */
  #tellAll(replica: FakeReplica): void {
    const { end, spec, isEndTold } = replica;
    void this.#tellLines(replica);
    if (end === null || isEndTold || this.#sink === null) return;
    replica.isEndTold = true;
    this.#tell({ kind: "exited", replicaId: spec.replicaId, at: this.#clock.now(), ...end });
    replica.gone.resolve();
  }

  /** One batch at a time. */
  #tellLines(replica: FakeReplica): Promise<void> {
    replica.telling ??= this.#deliver(replica).finally(() => {
      replica.telling = null;
    });
    return replica.telling;
  }

  async #deliver({ spec, unread }: FakeReplica): Promise<void> {
    const { replicaId } = spec;
    for (let sink = this.#sink; unread.length > 0 && sink !== null; sink = this.#sink) {
      const texts = unread.splice(0);
      const at = this.#clock.now();
      await sink.lines(
        texts.map((text) => ({ replicaId, at, stream: "stdout", runId: null, text }) as const),
      );
    }
  }

  #tell(event: ReplicaEvent): void {
    this.#sink?.event(event);
  }
}

type Listed = Pick<FakeReplica, "state" | "isEndTold">;

function listedState({ state, isEndTold }: Listed): OwnedReplica["state"] {
  if (isEndTold) return "exited";
  return state === "pending" ? "pending" : "running";
}
