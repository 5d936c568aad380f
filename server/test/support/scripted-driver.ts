// A driver whose replicas exist in memory and on a virtual clock. They outlive the platform's process as real ones do:
// `open` of the next process finds them. How each start goes, a script says.
import type {
  Address,
  Capabilities,
  Driver,
  OwnedReplica,
  ReplicaEvent,
  ReplicaSink,
  ReplicaSpec,
} from "#drivers/driver.ts";
import { StartRefused } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { tcpAddress } from "./replica-address.ts";

/** How a start goes; all times count from the call of `start`. */
export type StartScript = {
  readonly createMs: number;
  /** The driver refuses it. */
  readonly isRefused: boolean;
  /** Null: it never becomes ready by itself. */
  readonly readyMs: number | null;
  /** It exits by itself before it would have become ready. */
  readonly exitsEarly: boolean;
  /** What the driver finds odd when it has started it. */
  readonly hint?: string;
  /** It does not end when it is asked to, only by force. */
  readonly isStubborn: boolean;
};

/** `exit`: by itself, asked or not. */
export type ExitCause = "exit" | "forced" | "crash";

/** One replica that exists, or has existed and is not forgotten. */
export type ScriptedReplica = {
  readonly spec: ReplicaSpec;
  readonly script: StartScript;
  isRunning: boolean;
  isReady: boolean;
  /** When it was asked to end, in monotonic time. */
  askedAtMs: number | null;
  graceMs: number;
  reason: string | null;
};

const cpuOnly: Capabilities = {
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

/** The ground on which replicas run. */
export class ScriptedDriver implements Driver {
  readonly name = "fake" as const;
  readonly capabilities: Capabilities;
  /** Every id that ever ran. */
  readonly started = new Set<ReplicaId>();
  /** Called before a replica ends, whatever the cause. */
  onExit: (replica: ScriptedReplica, how: ExitCause) => void = () => undefined;
  /** Called when a replica is asked to end. */
  onAsked: (replica: ScriptedReplica) => void = () => undefined;
  /** Calls on a replica that a well-behaved one finishes before it ends. */
  busy: (replicaId: ReplicaId) => number = () => 0;
  readonly #replicas = new Map<ReplicaId, ScriptedReplica>();
  readonly #gone = new Map<ReplicaId, (() => void)[]>();
  readonly #clock: Clock;
  readonly #script: (spec: ReplicaSpec) => StartScript;
  #sink: ReplicaSink | null = null;

  constructor(parts: { clock: Clock; script: (spec: ReplicaSpec) => StartScript; compute?: readonly string[] }) {
    this.#clock = parts.clock;
    this.#script = parts.script;
    this.capabilities = { ...cpuOnly, compute: parts.compute ?? cpuOnly.compute };
  }

  open(sink: ReplicaSink): Promise<void> {
    this.#sink = sink;
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#sink = null;
    return Promise.resolve();
  }

  async start(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    if (this.#replicas.has(spec.replicaId)) return;
    const script = this.#script(spec);
    await this.#clock.sleep(script.createMs, signal);
    if (script.isRefused) throw new StartRefused("There is no room for it.");
    const replica: ScriptedReplica = {
      spec,
      script,
      isRunning: true,
      isReady: false,
      askedAtMs: null,
      graceMs: 0,
      reason: null,
    };
    this.#replicas.set(spec.replicaId, replica);
    this.started.add(spec.replicaId);
    this.#clock.after(0, () =>
      this.#tell({ kind: "started", hint: script.hint ?? null, replicaId: spec.replicaId, ...this.#place(spec) }),
    );
    if (script.readyMs === null) return;
    const leftMs = Math.max(1, script.readyMs - script.createMs);
    if (script.exitsEarly) this.#clock.after(leftMs / 2, () => this.#exit(replica, "It ended with exit code 1."));
    else this.#clock.after(leftMs, () => this.#becomeReady(replica));
  }

  stop(replicaId: ReplicaId, options: { readonly graceMs: number }): Promise<void> {
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined || !replica.isRunning) return Promise.resolve();
    const gone = new Promise<void>((resolve) => {
      this.#gone.set(replicaId, [...(this.#gone.get(replicaId) ?? []), resolve]);
    });
    if (replica.askedAtMs === null) {
      replica.askedAtMs = this.#clock.monotonicMs();
      replica.graceMs = options.graceMs;
      this.onAsked(replica);
      this.#clock.after(options.graceMs, () => this.#exit(replica, "It was ended by force.", "forced"));
      if (!replica.script.isStubborn) this.#endWhenDone(replica);
    }
    return gone;
  }

  list(): Promise<readonly OwnedReplica[]> {
    return Promise.resolve(
      [...this.#replicas.values()].map((replica) => ({
        replicaId: replica.spec.replicaId,
        appId: replica.spec.appId,
        releaseId: replica.spec.releaseId,
        state: replica.isRunning ? "running" : "exited",
        address: this.#place(replica.spec).address,
        isReady: replica.isReady,
        reason: replica.reason,
      })),
    );
  }

  forget(replicaId: ReplicaId): Promise<void> {
    if (this.#replicas.get(replicaId)?.isRunning === false) this.#replicas.delete(replicaId);
    return Promise.resolve();
  }

  /** Ends a replica as a crash does; false when it is not running. */
  crash(replicaId: ReplicaId): boolean {
    const replica = this.#replicas.get(replicaId);
    if (replica?.isRunning !== true) return false;
    this.#exit(replica, "It ended with signal SIGSEGV.", "crash");
    return true;
  }

  /** Prints a line as the replica. */
  async print(replicaId: ReplicaId, text: string): Promise<void> {
    await this.#sink?.lines([{ replicaId, at: this.#clock.now(), stream: "stdout", runId: null, text }]);
  }

  /** Whether a replica answers a probe; its address names it. */
  answers(address: Address): boolean {
    const replica = this.#replicas.get(tcpAddress(address).host as ReplicaId);
    return replica?.isRunning === true && replica.isReady;
  }

  /** Replicas that exist now. */
  running(): ScriptedReplica[] {
    return [...this.#replicas.values()].filter((replica) => replica.isRunning);
  }

  /** Records that are not forgotten although their replicas ended. */
  remains(): number {
    return [...this.#replicas.values()].filter((replica) => !replica.isRunning).length;
  }

  #place(spec: ReplicaSpec): { at: number; address: Address } {
    return { at: this.#clock.now(), address: { host: spec.replicaId, port: 1 } };
  }

  #becomeReady(replica: ScriptedReplica): void {
    if (!replica.isRunning || replica.askedAtMs !== null) return;
    replica.isReady = true;
    this.#tell({ kind: "ready", replicaId: replica.spec.replicaId, ...this.#place(replica.spec) });
  }

  #endWhenDone(replica: ScriptedReplica): void {
    if (!replica.isRunning) return;
    if (this.busy(replica.spec.replicaId) === 0) this.#exit(replica, "It ended with exit code 0.");
    else this.#clock.after(20, () => this.#endWhenDone(replica));
  }

  #exit(replica: ScriptedReplica, reason: string, how: ExitCause = "exit"): void {
    if (!replica.isRunning) return;
    this.onExit(replica, how);
    replica.isRunning = false;
    replica.reason = reason;
    const { replicaId } = replica.spec;
    this.#tell({
      kind: "exited",
      replicaId,
      at: this.#clock.now(),
      exitCode: how === "exit" ? 1 : null,
      signal: null,
      reason,
    });
    for (const resolve of this.#gone.get(replicaId) ?? []) resolve();
    this.#gone.delete(replicaId);
  }

  #tell(event: ReplicaEvent): void {
    this.#sink?.event(event);
  }
}
