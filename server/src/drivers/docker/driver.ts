// Runs replicas as containers of a Docker engine on this machine. The containers outlive the
// platform, and their labels contain all that a later process of the platform has to know.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { keepFirewall, removeFirewall } from "#drivers/app-firewall-machine.ts";
import type { Firewall } from "#drivers/app-firewall.ts";
import { whyNoRuntime, type ContainerRuntimes } from "#drivers/container-runtimes.ts";
import type { ExecCommand, RunningExec } from "#drivers/exec.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import {
  StartRefused,
  type Capabilities,
  type Driver,
  type Outage,
  type ReplicaSink,
  type ReplicaSpec,
  type ReplicaUsage,
} from "#drivers/driver.ts";
import { ReplicaDriver, type ReplicaDriverOptions } from "#drivers/replica-driver.ts";
import { assert } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { AppNetworks } from "./app-networks.ts";
import { dockerArtifact } from "./artifact.ts";
import { dockerCapabilities } from "./capabilities.ts";
import { compareContainers, takeOverContainers } from "./compare-containers.ts";
import { Container } from "./container.ts";
import { ContainerFile } from "./container-file.ts";
import { execInContainer } from "./container-exec.ts";
import { recordInLabels, type ContainerRecord } from "./container-spec.ts";
import { createContainer, removeContainer } from "./create-container.ts";
import { isUnreachable, type Engine } from "./engine.ts";
import type { EngineEvent } from "./engine-events.ts";
import { EngineOutage, lookEveryPingMs } from "./engine-outage.ts";
import { EngineRuntimes } from "./engine-runtimes.ts";
import { EngineWatch } from "./engine-watch.ts";
import type { KeyedNames } from "./keyed-names.ts";
import type { MachineFiles } from "./own-container.ts";
import { withImage, type ImageRegistry } from "./pull-image.ts";
import { startRefusal } from "./start-refusal.ts";
import { measureContainers } from "./usage.ts";

export type DockerDriverOptions = ReplicaDriverOptions & {
  /** Makes names in the engine that no app can work out. */
  readonly names: KeyedNames;
  readonly engine: Engine;
  /** Identifies the installation in names of networks and interfaces; see `installationOf`. */
  readonly installation: string;
  /** The folder with one small file per container. */
  readonly containersDir: string;
  /** The storage of apps on the engine's machine; see `findSharedPaths`. */
  readonly mountedStorageDir: string;
  /** How to reach the files of the engine's machine. */
  readonly machine: MachineFiles;
  /** Null: firewall rules cannot be set, so that apps reach the machine's services. */
  readonly firewall: Firewall | null;
  /** The registry that images are pushed to; null: images are only in the engine. */
  readonly registry: ImageRegistry | null;
  /** The OCI runtimes for containerRuntime. */
  readonly runtimes: Omit<ContainerRuntimes, "present">;
  readonly clock: Clock;
};

/**
 * How often containers that are being stopped are checked; the others are checked after events of
 * the engine.
 */
const lookEveryMs = 1000;
/** How often all containers are compared with the engine's list, in case an event was lost. */
const compareEveryMs = 30_000;
/** How often missing firewall rules are restored. */
const rulesEveryMs = 10_000;

/** The Docker driver. `driver.ts` documents the methods. */
export class DockerDriver extends ReplicaDriver<Container> implements Driver {
  readonly name = "docker";
  readonly zygotes = null;
  readonly isShared = true;
  readonly capabilities: Capabilities;
  readonly #options: DockerDriverOptions;
  readonly #networks: AppNetworks;
  readonly #runtimes: EngineRuntimes;
  readonly #outage: EngineOutage;
  readonly #watch: EngineWatch;
  readonly #loops: readonly Loop[];
  #sink: ReplicaSink | null = null;

  constructor(options: DockerDriverOptions) {
    super(options);
    const { engine, firewall, clock, log } = options;
    this.#options = options;
    this.#networks = new AppNetworks(options);
    this.#runtimes = new EngineRuntimes(engine, options.runtimes);
    this.capabilities = dockerCapabilities(firewall, this.#runtimes);
    this.#outage = new EngineOutage(options);
    this.#watch = new EngineWatch({
      ...options,
      outage: this.#outage,
      onEvent: (event) => this.#lookAt(event),
      onBegin: () => this.#compare(),
    });
    const loop = (name: string, intervalMs: number, turn: () => Promise<void>): Loop =>
      new Loop({ name, intervalMs, turn, clock, log });
    this.#loops = [
      loop("docker driver", lookEveryMs, () => this.#lookAtStopping()),
      loop("Docker engine", lookEveryPingMs, () => this.#outage.look()),
      loop("list of containers", compareEveryMs, async () => {
        const isReachable = this.#outage.now === null;
        if (isReachable) await this.#compare();
      }),
      loop("rules of apps' networks", rulesEveryMs, () => this.#keepFirewall()),
    ];
  }

  async open(sink: ReplicaSink): Promise<void> {
    assert(this.#sink === null, "a driver is opened once");
    this.#sink = sink;
    await mkdir(this.#options.containersDir, { recursive: true, mode: 0o700 });
    await this.#networks.adopt();
    await this.#adopt();
    this.#watch.start();
    for (const loop of this.#loops) loop.start();
  }

  outage(): Outage | null {
    return this.#outage.now;
  }

  async usage(): Promise<ReadonlyMap<ReplicaId, ReplicaUsage>> {
    const ids = new Map(
      this.running.map(({ record, containerId }) => [record.replicaId, containerId]),
    );
    return this.placement.withGpuUse(await measureContainers(this.#options.engine, ids));
  }

  async close(): Promise<void> {
    await Promise.all([this.#watch.close(), ...this.#loops.map((loop) => loop.stop())]);
    await this.starts.settled();
    await this.execs.close();
    await Promise.all([...this.replicas.values()].map((container) => container.close()));
    if (this.running.length === 0) await this.#removeTraces();
    this.replicas.clear();
  }

  protected async startReplica(
    spec: ReplicaSpec,
    claim: CardClaim,
    signal: AbortSignal,
  ): Promise<void> {
    if (spec.artifact.kind !== "docker") {
      throw new StartRefused(
        `The release was built by the ${spec.artifact.kind} driver and cannot run in a container: ${buildAgain}.`,
      );
    }
    const { engine, log } = this.#options;
    const { replicaId } = spec;
    let container: Container | null = null;
    try {
      signal.throwIfAborted();
      await this.#requireRuntime(spec);
      const containerId = await this.#create(spec, claim, signal);
      const calls = engine.calls.getContainer(containerId);
      const record = recordInLabels((await calls.inspect()).Config.Labels);
      assert(record !== null, "a container of the platform has its labels");
      // The driver knows the container before it runs, so that no event of the container is missed.
      container = this.#containerOf(containerId, record, true);
      this.replicas.set(replicaId, container);
      signal.throwIfAborted();
      await container.attach();
      await calls.start();
      signal.throwIfAborted();
    } catch (error) {
      // The end of the container has been reported already, so the start is not refused as well.
      if (container?.isEnded === true) return;
      if (container !== null) {
        this.replicas.delete(replicaId);
        await container.discard();
        await removeContainer(container.containerId, this.#options);
      }
      if (isUnreachable(error)) void this.#outage.look();
      const isExpected = error instanceof StartRefused || signal.aborted;
      if (!isExpected) log.warn({ err: error, replicaId }, "the engine did not start a container");
      throw startRefusal(error, spec);
    }
    await container.look();
  }

  protected async execIn(
    { containerId, record }: Container,
    command: ExecCommand,
  ): Promise<RunningExec> {
    const { engine, clock } = this.#options;
    return await execInContainer(
      { engine, clock, containerId, replicaId: record.replicaId },
      command,
    );
  }

  async #requireRuntime({ containerRuntime }: ReplicaSpec): Promise<void> {
    if (containerRuntime !== null) await this.#runtimes.look();
    const missing = whyNoRuntime(this.#runtimes.now, containerRuntime);
    if (missing !== null) throw new StartRefused(missing);
  }

  /** Creates the container. Pulls the image from the registry when the engine has lost it. */
  async #create(spec: ReplicaSpec, claim: CardClaim, signal: AbortSignal): Promise<string> {
    const artifact = dockerArtifact(spec.artifact);
    const parts = {
      ...this.#options,
      networks: this.#networks,
      runtimes: this.#runtimes.now,
      claim,
    };
    return await withImage(() => createContainer(spec, parts), {
      ...this.#options,
      artifact,
      signal,
    });
  }

  /** `isNew`: this process of the platform has just created the container. */
  #containerOf(containerId: string, record: ContainerRecord, isNew: boolean): Container {
    const { engine, clock, log, containersDir } = this.#options;
    assert(this.#sink !== null, "a driver is opened before it is used");
    const { replicaId } = record;
    return new Container({
      containerId,
      record,
      engine,
      sink: this.#sink,
      clock,
      isNew,
      disk: this.#options.disk,
      machine: this.#options.machine,
      onEnded: () => this.placement.release(replicaId),
      watchedSinceMs: () => this.#watch.sinceMs,
      file: new ContainerFile(join(containersDir, replicaId)),
      onFault: (error) => {
        // An outage of the engine is logged once, elsewhere; each look would log it again.
        if (!isUnreachable(error))
          log.error({ err: error, replicaId }, "could not look at a container");
      },
    });
  }

  async #adopt(): Promise<void> {
    await takeOverContainers(this.#compareParts(), (containerId, record) =>
      this.#containerOf(containerId, record, false),
    );
    for (const { record } of this.running) this.placement.keep(record.replicaId, record.claim);
    await Promise.all(this.running.map((container) => container.takeIn()));
  }

  async #compare(): Promise<void> {
    await this.#runtimes.look();
    await compareContainers(this.#compareParts());
  }

  #compareParts() {
    const { replicas, starts } = this;
    return { ...this.#options, networks: this.#networks, replicas, starts };
  }

  #lookAt({ action, containerId }: EngineEvent): void {
    const container = this.replicas
      .values()
      .find((candidate) => candidate.containerId === containerId);
    if (container === undefined || container.isEnded) return;
    if (action === "kill") container.signalled();
    else void container.look();
  }

  async #lookAtStopping(): Promise<void> {
    const stopping = [...this.replicas.values()].filter(({ isStopping }) => isStopping);
    await Promise.all(stopping.map((container) => container.look()));
  }

  async #keepFirewall(): Promise<void> {
    const { firewall, log } = this.#options;
    // Rules are needed while replicas run, and always for the network of builds.
    if (firewall === null || (this.running.length === 0 && firewall.buildBridge === null)) return;
    // True: no rule was missing.
    if (await keepFirewall(firewall)) return;
    log.warn("restored missing firewall rules of the apps' networks");
  }

  /** Removes the firewall rules and the networks of apps. */
  async #removeTraces(): Promise<void> {
    const { firewall, log } = this.#options;
    if (firewall !== null) await removeFirewall(firewall);
    await this.#networks.removeUnused().catch((error: unknown) => {
      log.warn({ reason: (error as Error).message }, "networks of apps could not be removed");
    });
  }
}
