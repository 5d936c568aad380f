// Runs replicas as containers of a Docker engine on this machine. They outlive the platform: their
// labels keep what a later process of the platform has to know.
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ContainerInfo } from "dockerode";
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
import { makeOwnedFolder, sharedStoragePath, storageMounts } from "#drivers/storage.ts";
import { assert } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import { AppNetworks } from "./app-networks.ts";
import { dockerArtifact } from "./artifact.ts";
import { Container } from "./container.ts";
import { ContainerFile } from "./container-file.ts";
import { execInContainer } from "./container-exec.ts";
import { containerSpec, labels, recordInLabels, type ContainerRecord } from "./container-spec.ts";
import { engineStatus, isUnreachable, runtimesOf, unlessStatus, type Engine } from "./engine.ts";
import { followEvents, type EngineEvent } from "./engine-events.ts";
import { EngineOutage, lookEveryPingMs } from "./engine-outage.ts";
import type { KeyedNames } from "./keyed-names.ts";
import { withImage, type ImageRegistry } from "./pull-image.ts";
import { startRefusal } from "./start-refusal.ts";
import { measureContainers } from "./usage.ts";

const storedElsewhere =
  "these replicas go on with the storage of another data folder: move its files here, then restart their apps";

export type DockerDriverOptions = ReplicaDriverOptions & {
  readonly names: KeyedNames;
  readonly engine: Engine;
  /** Identifies the installation in names of networks and interfaces; see `installationOf`. */
  readonly installation: string;
  /** One small file per container. */
  readonly containersDir: string;
  /** Null: the machine's rules cannot be set, so apps reach its services. */
  readonly firewall: Firewall | null;
  /** Null: images are only in the engine. */
  readonly registry: ImageRegistry | null;
  /** The OCI runtimes for containerRuntime. */
  readonly runtimes: Omit<ContainerRuntimes, "present">;
  readonly clock: Clock;
};

/**
 * How often containers that are being stopped are looked at; the others are looked at after events
 * of the engine.
 */
const lookEveryMs = 1000;
/** How often all containers are compared with the engine's list, in case an event was lost. */
const compareEveryMs = 30_000;
const rulesEveryMs = 10_000;
const watching: RetryPolicy = {
  firstMs: 200,
  factor: 2,
  msMax: 5_000,
  jitter: 0.2,
  triesMax: untilStop,
};

/** The Docker driver. `driver.ts` documents the methods. */
export class DockerDriver extends ReplicaDriver<Container> implements Driver {
  readonly name = "docker";
  readonly isShared = true;
  readonly capabilities: Capabilities;
  readonly #options: DockerDriverOptions;
  readonly #networks: AppNetworks;
  readonly #outage: EngineOutage;
  readonly #loops: readonly Loop[];
  readonly #closing = new AbortController();
  #runtimes: ContainerRuntimes;
  #watchedSinceMs = Number.POSITIVE_INFINITY;
  #watch: Promise<unknown> = Promise.resolve();
  #sink: ReplicaSink | null = null;

  constructor(options: DockerDriverOptions) {
    super(options);
    this.#options = options;
    this.#networks = new AppNetworks(options);
    this.#outage = new EngineOutage(options);
    this.#runtimes = { ...options.runtimes, present: options.engine.facts.runtimes };
    const runtimes = (): ContainerRuntimes => this.#runtimes;
    this.capabilities = {
      dockerfile: true,
      baseImage: true,
      aptPackages: true,
      condaPackages: true,
      memoryLimit: true,
      cpuLimit: true,
      egress:
        options.firewall === null
          ? {
              canLimit: false,
              reason:
                "firewall rules for containers are not set (SLIPWAY_APP_NETWORK, root, the program nft)",
            }
          : { canLimit: true, allowed: options.firewall.allowed },
      storagePaths: true,
      // The engine keeps a bounded number of them.
      get containerRuntimes() {
        return runtimes();
      },
    };
    const loop = (name: string, intervalMs: number, turn: () => Promise<void>): Loop =>
      new Loop({ name, intervalMs, turn, clock: options.clock, log: options.log });
    this.#loops = [
      loop("docker driver", lookEveryMs, () => this.#lookAtStopping()),
      loop("Docker engine", lookEveryPingMs, () => this.#outage.look()),
      loop(
        "list of containers",
        compareEveryMs,
        async () => void (this.#outage.now ?? (await this.#compare())),
      ),
      loop("rules of apps' networks", rulesEveryMs, () => this.#keepFirewall()),
    ];
  }

  async open(sink: ReplicaSink): Promise<void> {
    assert(this.#sink === null, "a driver is opened once");
    this.#sink = sink;
    const { containersDir, clock, log } = this.#options;
    await mkdir(containersDir, { recursive: true, mode: 0o700 });
    await this.#networks.adopt();
    await this.#adopt();
    const onFailure = (error: unknown): void => {
      if (this.#outage.now === null)
        log.warn(
          { reason: (error as Error).message },
          "the events of the Docker engine were interrupted",
        );
      void this.#outage.look();
    };
    this.#watch = retry({ ...watching, clock, signal: this.#closing.signal, onFailure }, () =>
      this.#watchEvents(),
    );
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
    this.#closing.abort(new Error("the driver was closed"));
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    await this.#watch;
    await this.starts.settled();
    await this.execs.close();
    await Promise.all([...this.replicas.values()].map((container) => container.close()));
    if (this.running.length === 0) await this.#removeTraces();
    this.replicas.clear();
  }

  async #removeTraces(): Promise<void> {
    const { firewall, log } = this.#options;
    if (firewall !== null) await removeFirewall(firewall);
    await this.#networks.removeUnused().catch((error: unknown) => {
      log.warn({ reason: (error as Error).message }, "networks of apps could not be removed");
    });
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
      if (spec.containerRuntime !== null) await this.#lookForRuntimes();
      const missing = whyNoRuntime(this.#runtimes, spec.containerRuntime);
      if (missing !== null) throw new StartRefused(missing);
      const artifact = dockerArtifact(spec.artifact);
      const containerId = await withImage(() => this.#create(spec, claim), {
        ...this.#options,
        artifact,
        signal,
      });
      const calls = engine.calls.getContainer(containerId);
      const record = recordInLabels((await calls.inspect()).Config.Labels);
      assert(record !== null, "a container of the platform has its labels");
      // Known before it runs, so that no event of the engine about it is missed.
      container = this.#containerOf(containerId, record, true);
      this.replicas.set(replicaId, container);
      signal.throwIfAborted();
      await container.attach();
      await calls.start();
      signal.throwIfAborted();
    } catch (error) {
      // Its end is told already.
      if (container?.isEnded === true) return;
      if (container !== null) {
        this.replicas.delete(replicaId);
        await container.discard();
        await this.#remove(container.containerId);
      }
      if (isUnreachable(error)) void this.#outage.look();
      if (!(error instanceof StartRefused || signal.aborted))
        log.warn({ err: error, replicaId }, "the engine did not start a container");
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

  async #create(spec: ReplicaSpec, claim: CardClaim): Promise<string> {
    const { engine, storageDir, installationId, firewall } = this.#options;
    const storage = storageMounts(spec, storageDir);
    const user = process.getuid?.() === 0 ? dockerArtifact(spec.artifact).user : null;
    for (const { from } of storage) makeOwnedFolder(from, user);
    const context = {
      claim,
      installationId,
      storage,
      cores: engine.facts.cores,
      runtime: spec.containerRuntime === null ? undefined : this.#runtimes[spec.containerRuntime],
      filesMax: engine.facts.filesMax,
      nameServers: firewall?.nameServers ?? null,
      isPublished: !engine.facts.hasReachableContainers,
    };
    // No app runs without the rules, whoever has flushed them.
    if (firewall !== null) await keepFirewall(firewall);
    const network = await this.#networks.ensure(spec);
    const create = async (): Promise<string> =>
      (await engine.calls.createContainer(containerSpec(spec, { ...context, network }))).id;
    return create().catch(async (error: unknown) => {
      // A left-over of a start that was killed between this and the next step.
      if (engineStatus(error) !== 409) throw error;
      const name = containerSpec(spec, { ...context, network }).name ?? "";
      await this.#remove(name);
      return create();
    });
  }

  async #remove(containerId: string): Promise<void> {
    const container = this.#options.engine.calls.getContainer(containerId);
    await unlessStatus([404, 409], container.remove({ force: true, v: true })).catch(
      (error: unknown) => {
        this.#options.log.warn(
          { err: error, containerId },
          "a container that was not started could not be removed",
        );
      },
    );
  }

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
      onEnded: () => this.placement.release(replicaId),
      watchedSinceMs: () => this.#watchedSinceMs,
      file: new ContainerFile(join(containersDir, replicaId)),
      onFault: (error) => {
        // The loss of the events tells that the engine is down, once and not for each look.
        if (!isUnreachable(error))
          log.error({ err: error, replicaId }, "could not look at a container");
      },
    });
  }

  /**
   * Takes over containers of an earlier process of the platform, and removes those that it never
   * started.
   */
  async #adopt(): Promise<void> {
    const { containersDir, storageDir, log } = this.#options;
    const elsewhere: ReplicaId[] = [];
    for (const { Id, Labels, State, Mounts } of await this.#listed()) {
      const record = recordInLabels(Labels);
      if (record === null || this.replicas.has(record.replicaId)) continue;
      if (State === "created") {
        await this.#remove(Id);
        continue;
      }
      this.replicas.set(record.replicaId, this.#containerOf(Id, record, false));
      if (!isStoredIn(storageDir, Mounts)) elsewhere.push(record.replicaId);
    }
    if (elsewhere.length > 0) log.warn({ replicaIds: elsewhere, storageDir }, storedElsewhere);
    for (const name of await readdir(containersDir)) {
      if (!this.replicas.has(name as ReplicaId))
        await rm(join(containersDir, name), { force: true });
    }
    for (const { record } of this.running) this.placement.keep(record.replicaId, record.claim);
    await Promise.all(this.running.map((container) => container.takeIn()));
  }

  #listed() {
    const filters = { label: [`${labels.instance}=${this.installationId}`, labels.replica] };
    return this.#options.engine.calls.listContainers({ all: true, filters });
  }

  async #watchEvents(): Promise<void> {
    const { engine, installationId, clock } = this.#options;
    await followEvents(engine, {
      installationId,
      clock,
      signal: this.#closing.signal,
      onEvent: (event) => this.#lookAt(event),
      onFollowed: (sinceMs) => (this.#watchedSinceMs = sinceMs),
      // Whatever happened before.
      onBegin: () => this.#compare(),
    });
  }

  #lookAt({ action, containerId }: EngineEvent): void {
    const container = this.replicas.values().find((one) => one.containerId === containerId);
    if (container === undefined || container.isEnded) return;
    if (action === "kill") container.signalled();
    else void container.look();
  }

  async #lookAtStopping(): Promise<void> {
    await Promise.all(
      [...this.replicas.values()].filter((one) => one.isStopping).map((one) => one.look()),
    );
  }

  /**
   * Looks at containers that run as far as the platform knows and not for the engine; removes what
   * nobody uses.
   */
  async #compare(): Promise<void> {
    await this.#lookForRuntimes();
    const all = await this.#listed();
    await this.#removeUnknown(all);
    const listed = new Set(all.filter(({ State }) => State === "running").map(({ Id }) => Id));
    const missing = this.running.filter(({ containerId }) => !listed.has(containerId));
    await Promise.all(missing.map((container) => container.look()));
    const used = [
      ...all.map(({ HostConfig }) => HostConfig.NetworkMode),
      ...this.starts.specs.map((spec) => this.#networks.nameOf(spec)),
    ];
    await this.#networks.removeIdle(new Set(used));
  }

  /**
   * Containers of starts whose outcome the engine could not say, because it was restarted for
   * example.
   */
  async #removeUnknown(listed: readonly ContainerInfo[]): Promise<void> {
    const unknown = listed.filter(({ Labels }) => {
      const replicaId = Labels[labels.replica] as ReplicaId;
      return !this.replicas.has(replicaId) && !this.starts.has(replicaId);
    });
    for (const { Id } of unknown) await this.#remove(Id);
  }

  async #lookForRuntimes(): Promise<void> {
    this.#runtimes = { ...this.#runtimes, present: await runtimesOf(this.#options.engine) };
  }

  async #keepFirewall(): Promise<void> {
    const { firewall, log } = this.#options;
    if (firewall === null || (this.running.length === 0 && firewall.buildBridge === null)) return;
    if (await keepFirewall(firewall)) return;
    log.warn("restored missing firewall rules of the apps' networks");
  }
}

/** Whether the container has its project's storage from this folder. */
function isStoredIn(storageDir: string, mounts: ContainerInfo["Mounts"]): boolean {
  const shared = mounts.find(({ Destination }) => Destination === sharedStoragePath);
  return shared === undefined || shared.Source.startsWith(`${storageDir}/`);
}
