// Runs replicas as processes of this machine. They outlive the platform: each has a folder with its
// full state, from which the next process of the platform takes the replica over.
import { keepFirewall, removeFirewall } from "#drivers/app-firewall-machine.ts";
import { addAbortListener } from "node:events";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import {
  StartRefused,
  type Capabilities,
  type Driver,
  type ReplicaSink,
  type ReplicaSpec,
  type ReplicaUsage,
} from "#drivers/driver.ts";
import {
  ExecRefused,
  replicaNotRunning,
  type ExecCommand,
  type RunningExec,
} from "#drivers/exec.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import { assert } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Controller } from "./cgroup.ts";
import { removeLeftGroups, type Cgroups } from "./cgroup-detect.ts";
import type { DiskWriter } from "#drivers/disk/disk-watch.ts";
import type { ForkSource } from "./fork-launch.ts";
import { launch, type Launched } from "./launch.ts";
import type { LaunchContext } from "./replica-program.ts";
import { PortPool } from "./port-pool.ts";
import { ShellPool } from "./shell-pool.ts";
import { isAlive, signal } from "./process-table.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import {
  giveUpStart,
  readPid,
  readRecord,
  replicaPaths,
  type ReplicaRecord,
} from "./replica-files.ts";
import { endLeftExecs, execInSandbox } from "./replica-exec.ts";
import { loopback } from "./replica-listens.ts";
import { ReplicaDriver, type ReplicaDriverOptions } from "#drivers/replica-driver.ts";
import { lookEveryMs } from "./replica-looks.ts";
import { ProcessZygotes } from "./process-zygotes.ts";
import { ReplicaProcess } from "./replica-process.ts";
import type { OwnNetwork } from "./network.ts";
import { egressOf, ownNetwork, type Sandbox } from "./sandbox.ts";
import { usageOf } from "./usage.ts";

export type ProcessDriverOptions = ReplicaDriverOptions &
  Pick<LaunchContext, "dataDir" | "replicasDir" | "runtimeDir" | "sandbox"> & {
    /** The control groups of `detectCgroups`. */
    readonly cgroups: Cgroups;
    readonly clock: Clock;
  };

/**
 * How long replicas may run without their firewall rules after another program removed the rules.
 */
const rulesEveryMs = 10_000;
/** `{appName}-` and the suffix from `newReplicaId`; used as a folder name. */
const replicaIdForm = /^[a-z0-9-]{1,60}$/;

/** The process driver. `#drivers/driver.ts` documents the methods. */
export class ProcessDriver extends ReplicaDriver<ReplicaProcess> implements Driver {
  readonly name = "process";
  readonly isShared = false;
  readonly capabilities: Capabilities;
  readonly #options: ProcessDriverOptions;
  readonly #cgroups: Cgroups;
  readonly #network: OwnNetwork | null;
  readonly #shells: ShellPool;
  readonly #ports = new PortPool();
  readonly #lookLoop: Loop;
  readonly #networkLoop: Loop;
  readonly zygotes: ProcessZygotes;
  #sink: ReplicaSink | null = null;

  constructor(options: ProcessDriverOptions) {
    super(options);
    this.#options = options;
    this.#cgroups = options.cgroups;
    const { clock, log } = options;
    this.#network = ownNetwork(options.sandbox);
    const { dataDir, sandbox } = options;
    const base = {
      stagingDir: join(dataDir, "sandbox"),
      etcDir: join(dataDir, "etc"),
      hidden: [dataDir],
    };
    this.#shells = new ShellPool({ sandbox, base, clock, log });
    this.capabilities = {
      dockerfile: false,
      baseImage: false,
      aptPackages: false,
      condaPackages: false,
      memoryLimit: this.#hasController("memory"),
      cpuLimit: this.#hasController("cpu"),
      egress: egressOf(options.sandbox),
      storagePaths: options.sandbox.kind === "namespaces",
      containerRuntimes: null,
    };
    this.zygotes = new ProcessZygotes({
      sandbox,
      zygotesDir: join(dataDir, "zygotes"),
      context: () => this.#launchContext(),
      disk: options.disk,
      clock,
      log,
    });
    this.#lookLoop = new Loop({
      name: "process driver",
      intervalMs: lookEveryMs,
      clock,
      log,
      turn: () => {
        for (const replica of this.replicas.values()) replica.look();
        this.zygotes.look((id) => this.#forksOf(id).length > 0);
        this.#shells.dropStale();
        return Promise.resolve();
      },
    });
    this.#networkLoop = new Loop({
      name: "rules of replicas' networks",
      intervalMs: rulesEveryMs,
      clock,
      log,
      turn: () => this.#keepFirewall(),
    });
  }

  async open(sink: ReplicaSink): Promise<void> {
    const { dataDir, replicasDir, sandbox, log } = this.#options;
    assert(this.#sink === null, "a driver is opened once");
    this.#sink = sink;
    reportIsolation(sandbox, this.#cgroups, log);
    await mkdir(replicasDir, { recursive: true, mode: 0o700 });
    await mkdir(join(dataDir, "sandbox"), { recursive: true });
    for (const name of await readdir(replicasDir)) await this.#adopt(name, sink);
    await endLeftExecs((replicaId) => this.replicas.has(replicaId), this.#options.clock);
    await this.zygotes.open((id) => this.#forksOf(id).length > 0);
    removeLeftGroups(
      this.#cgroups,
      (name) => this.replicas.has(name as ReplicaId) || this.zygotes.isZygote(name),
    );
    this.#lookLoop.start();
    this.#networkLoop.start();
  }

  outage(): null {
    return null;
  }

  usage(): Promise<ReadonlyMap<ReplicaId, ReplicaUsage>> {
    const pids = new Map<ReplicaId, number>();
    for (const { record, pid } of this.running) {
      if (pid !== null) pids.set(record.replicaId, pid);
    }
    return Promise.resolve(
      this.placement.withGpuUse(usageOf(pids, { hasNetwork: this.#network !== null })),
    );
  }

  async close(): Promise<void> {
    await this.#lookLoop.stop();
    await this.#networkLoop.stop();
    await this.starts.settled();
    await this.execs.close();
    await this.zygotes.close((id) => this.#forksOf(id).length > 0);
    await Promise.all([...this.replicas.values()].map((replica) => replica.close()));
    await this.#shells.close();
    const network = this.#network;
    // Replicas that keep running also keep their firewall rules.
    if (network !== null && this.running.length === 0) await removeFirewall(network);
    this.replicas.clear();
  }

  async #keepFirewall(): Promise<void> {
    const network = this.#network;
    const isUsed = this.running.length > 0 || !this.#shells.isEmpty || this.zygotes.hasNetwork;
    // `keepFirewall` returns false when it had to restore the rules.
    if (network === null || !isUsed || (await keepFirewall(network))) return;
    this.#options.log.warn("restored missing firewall rules of the replicas' networks");
  }

  #launchContext() {
    return {
      ...this.#options,
      socketsDir: join(this.#options.dataDir, "sockets"),
      ports: this.#ports,
      shells: this.#shells,
      cgroups: this.#cgroups,
    };
  }

  /** The running replicas that were forked from this zygote. */
  #forksOf(zygoteId: ReplicaId): ReplicaProcess[] {
    return this.running.filter(({ record }) => record.zygoteId === zygoteId);
  }

  #hasController(controller: Controller): boolean {
    return this.#cgroups.parents.some((parent) => parent.controller === controller);
  }

  #pathsOf(replicaId: string): ReturnType<typeof replicaPaths> {
    return replicaPaths(join(this.#options.replicasDir, replicaId));
  }

  protected async startReplica(
    spec: ReplicaSpec,
    claim: CardClaim,
    signal: AbortSignal,
  ): Promise<void> {
    assert(
      replicaIdForm.test(spec.replicaId),
      "a replica id has small letters, digits and hyphens",
    );
    const source = this.zygotes.sourceFor(spec);
    if (source === null) return await this.#startFrom(null, spec, { claim, signal });
    try {
      await this.#startFrom(source, spec, { claim, signal });
    } catch (error) {
      if (signal.aborted) throw error;
      const { replicaId } = spec;
      this.#options.log.warn(
        { err: error, replicaId },
        "could not start a replica from its zygote",
      );
      this.zygotes.end(source.id);
      await this.#startFrom(null, spec, { claim, signal });
    }
  }

  /** Starts a replica from the zygote, or with an import of its own when that is null. */
  async #startFrom(
    source: ForkSource | null,
    spec: ReplicaSpec,
    { claim, signal }: { readonly claim: CardClaim; readonly signal: AbortSignal },
  ): Promise<void> {
    signal.throwIfAborted();
    const launched = await launch(spec, { ...this.#launchContext(), claim, signal }, source).catch(
      (error: unknown) => {
        if (signal.aborted || error instanceof StartRefused) throw error;
        // When the machine has an error (a full disk, a copy that timed out), the app's owner sees
        // only the error's code.
        const code = (error as NodeJS.ErrnoException).code ?? "unknown";
        throw new StartRefused(
          `The replica's folder could not be created on the machine that runs it (${code}).`,
          {
            cause: error,
          },
        );
      },
    );
    const replica = this.#replicaOf(launched);
    this.replicas.set(spec.replicaId, replica);
    // Until this function ends, an abort kills the replica.
    using _kill = addAbortListener(signal, () => replica.kill());
    try {
      await replica.watch();
      await replica.established;
    } catch (error) {
      await replica.stop(0);
      await replica.deliver();
      this.replicas.delete(spec.replicaId);
      await replica.remove();
      throw new StartRefused(`The replica could not be started: ${(error as Error).message}.`, {
        cause: error,
      });
    }
  }

  protected async execIn(
    { record, pid }: ReplicaProcess,
    command: ExecCommand,
  ): Promise<RunningExec> {
    const { sandbox, clock } = this.#options;
    const { replicaId, cgroup = [], zygoteId } = record;
    const forked = zygoteId === undefined ? null : readPid(this.#pathsOf(replicaId));
    if (pid === null) throw new ExecRefused(replicaNotRunning);
    return await Promise.resolve(
      execInSandbox({ replicaId, pid, cgroup, sandbox, clock, forked }, command),
    );
  }

  /** `child`: null when an earlier process of the platform has started the replica. */
  #replicaOf({
    child,
    paths,
    record,
  }: Omit<Launched, "child"> & { child: Launched["child"] | null }): ReplicaProcess {
    const { clock, log } = this.#options;
    assert(this.#sink, "a driver is opened before it is used");
    let removeWriter: (() => void) | undefined;
    const replica = new ReplicaProcess({
      paths,
      record,
      sink: this.#sink,
      clock,
      child,
      onEnded: () => {
        removeWriter?.();
        this.placement.release(record.replicaId);
        if (isOnMachine(record)) this.#ports.release(record.port);
      },
      onFault: (error) =>
        log.error({ err: error, replicaId: record.replicaId }, "could not look at a replica"),
    });
    // With a child, this process has just started the replica, which has written nothing yet.
    if (!replica.isEnded)
      removeWriter = this.#options.disk.add(writerOf(replica, paths.dir), child !== null);
    return replica;
  }

  /**
   * Takes over a replica that an earlier process of the platform started. Removes the folder of a
   * replica that was never spawned, or whose record cannot be read.
   */
  async #adopt(name: string, sink: ReplicaSink): Promise<void> {
    assert(sink === this.#sink, "a driver has one sink");
    const paths = this.#pathsOf(name);
    const record = readRecord(paths);
    const identity = readPid(paths);
    if (record === null || record.replicaId !== name) {
      // Nobody could end this replica otherwise: without a readable record, `list` cannot return
      // it.
      if (identity !== null && isAlive(identity)) signal(identity.pid, "SIGKILL");
      await removeFolder(paths.dir);
      return;
    }
    // The shell has not claimed its start. If the platform claims it first, the app never starts.
    if (identity === null && giveUpStart(paths)) {
      await removeFolder(paths.dir);
      return;
    }
    const replica = this.#replicaOf({ child: null, paths, record });
    this.replicas.set(record.replicaId, replica);
    if (!replica.isEnded) this.placement.keep(record.replicaId, record.claim);
    if (isOnMachine(record) && !replica.isEnded) this.#ports.keep(record.port);
    await replica.watch();
  }
}

/** Logs for operators, at the start, how apps are isolated here, or why not. */
function reportIsolation(sandbox: Sandbox, { missing }: Cgroups, log: Log): void {
  if (sandbox.kind === "none") {
    const { reason } = sandbox;
    log.warn(
      { reason },
      "apps run without a sandbox: they can read whatever the platform's user can read",
    );
  } else if (sandbox.network.kind === "shared") {
    const { reason } = sandbox.network;
    const text =
      "apps share the machine's network: they can reach its services and each other's web servers";
    log.warn({ reason }, text);
  } else {
    log.info("apps run in a sandbox, each replica in a network of its own");
  }
  if (missing !== "")
    log.warn({ missing }, "resource limits of apps are not fully enforced: cgroups are missing");
}

/** True when the replica has a port on the machine's network, not in a network of its own. */
function isOnMachine(record: ReplicaRecord): record is ReplicaRecord & { readonly port: number } {
  return record.port !== null && (record.host ?? loopback) === loopback;
}

function writerOf(replica: ReplicaProcess, dir: string): DiskWriter {
  const { replicaId, projectId } = replica.record;
  return {
    kind: "replica",
    id: replicaId,
    projectId,
    folders: () => [dir],
    pid: () => replica.pid,
    end: (reason) => replica.endFor(reason),
  };
}
