// Opens the Docker driver: replicas and builds run as containers of an engine on this machine.
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import { appFields } from "@slipway/contract/app-fields.ts";
import {
  isInstalled,
  letAppsCall,
  machineNameServers,
  type Reachable,
} from "#drivers/app-firewall-machine.ts";
import { hostName, installationOf, type Firewall } from "#drivers/app-firewall.ts";
import { openDisk, type DiskConfig } from "#drivers/disk/open-disk.ts";
import type { DriverParts, OpenedDriver } from "#drivers/opened-driver.ts";
import { openPlacement, type PoolSettings } from "#drivers/pools/open-placement.ts";
import { projectUser } from "#drivers/project-user.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { ProjectId } from "#lib/ids.ts";
import { buildLimits } from "#drivers/process/cgroup.ts";
import { bridges, defaultBridge, installationInUse } from "./app-networks.ts";
import { BuildSegment, segmentObstacle, type BuildSegmentOptions } from "./build-segment.ts";
import { DockerBuilder, type DockerBuilderOptions } from "./builder.ts";
import { findClient } from "./docker-client.ts";
import { DockerDriver } from "./driver.ts";
import { connectEngine, type Engine } from "./engine.ts";
import { openKeyedNames } from "./keyed-names.ts";
import type { NetworkWish } from "#drivers/process/network-machine.ts";
import type { Log } from "#lib/log.ts";
import { ownFiles } from "#lib/own-files.ts";
import { findSharedPaths, type MachineFiles } from "./own-container.ts";
import type { ImageRegistry } from "./pull-image.ts";

/** Settings of the Docker driver. */
export type DockerDriverConfig = DiskConfig &
  PoolSettings &
  Reachable & {
    readonly appNetwork: Omit<NetworkWish, "folder">;
    readonly docker: {
      /** The engine's socket, `unix:///…`. */
      readonly host: string;
      /** Where images are pushed; null: they stay in the engine. */
      readonly registry: ImageRegistry | null;
      /** Registries that builds may use in addition to the usual ones. */
      readonly moreRegistries: readonly string[];
      /** How much of the steps of earlier builds the engine may keep. */
      readonly cacheBytes: number;
      /** The OCI runtimes that the values of the setting `containerRuntime` stand for. */
      readonly runtimes: { readonly v1: string; readonly v2: string };
      /** Whether firewall rules close private networks and this machine's services to builds. */
      readonly areBuildsClosed: boolean;
    };
    readonly buildTimeoutSeconds: number;
    readonly paths: {
      readonly storageDir: string;
      /** Holds a folder for each running build. */
      readonly buildsDir: string;
      /** Holds one small file per container. */
      readonly containersDir: string;
    };
  };

const socketForm = /^unix:\/\/(\/.+)$/;
/** How long the engine keeps the steps of earlier builds. */
const cacheHoursMax = 24 * 14;
/** How long `dockerObstacle` waits for the engine, which answers much sooner when it works. */
const answerWaitMs = 10_000;

/**
 * Opens the driver. Throws `CannotStart` when no engine answers, or when the engine cannot do what
 * the settings ask for.
 */
export async function openDockerDriver(
  config: DockerDriverConfig,
  { installationId, log, lifecycle, clock }: DriverParts,
): Promise<OpenedDriver> {
  const placement = await openPlacement(config, { log, lifecycle, clock });
  const engine = await connect(config.docker.host);
  const { storageDir, containersDir } = config.paths;
  const { mountedDataDir, mountedStorageDir, machine } = await findSharedPaths(engine, {
    dataDir: await realpath(config.dataDir),
    storageDir,
    processes: "/proc",
    isRoot: process.getuid?.() === 0,
  });
  // If the data folder has changed, the installation keeps its name.
  const installation =
    (await installationInUse(engine, installationId)) ?? installationOf(mountedDataDir);
  const firewall = await openFirewall(config, { engine, installation });
  warnOfOpenNetworks(config, firewall, log);
  // `false`: no sandbox of an ordinary user is involved.
  const disk = await openDisk(config, false, { log, lifecycle, clock });
  const names = openKeyedNames(join(config.dataDir, "docker.key"));
  const parts = { installationId, names, engine, installation, firewall, disk, clock, log };
  const common = { ...parts, machine };
  const { runtimes, registry } = config.docker;
  const driver = new DockerDriver({
    ...common,
    containersDir,
    storageDir,
    mountedStorageDir,
    placement,
    runtimes,
    registry,
  });
  const builder = await openBuilder(config, common);
  warnOfMissingRuntimes(runtimes, engine, log);
  log.info(
    { engine: engine.facts.version },
    "apps run in containers, each app in a network of its own",
  );
  const userOf = (projectId: ProjectId): number | null =>
    process.getuid?.() === 0 ? projectUser(projectId) : null;
  const files = new StorageFiles({ storageDir, userOf, isUserOwned: false });
  return {
    driver,
    builder,
    disk,
    files,
    onListening: (port) => letAppsCall(firewall, { config, port, log }),
  };
}

/** Warns the operator when containers can reach the services of this machine. */
function warnOfOpenNetworks(
  { docker, appNetwork }: DockerDriverConfig,
  firewall: Firewall | null,
  log: Log,
): void {
  if (firewall !== null) {
    if (docker.areBuildsClosed) return;
    log.warn(
      "builds of images can reach the services of this machine: SLIPWAY_DOCKER_BUILD_NETWORK is open",
    );
    return;
  }
  const why =
    appNetwork.mode === "shared"
      ? "SLIPWAY_APP_NETWORK is shared"
      : "firewall rules need root and nft";
  log.warn(
    `apps can reach the services of this machine, and not the platform at ${hostName}: ${why}`,
  );
}

/** Warns the operator that apps with some values of `containerRuntime` will be refused. */
function warnOfMissingRuntimes(
  named: DockerDriverConfig["docker"]["runtimes"],
  engine: Engine,
  log: Log,
): void {
  const { runtimes } = engine.facts;
  for (const [field, runtime] of Object.entries(named)) {
    if (!runtimes.includes(runtime))
      log.warn(
        { runtime, runtimes },
        `the engine lacks the runtime that SLIPWAY_RUNTIME_${field.toUpperCase()} names: apps with containerRuntime ${field} are refused until it has it`,
      );
  }
}

type BuilderParts = Pick<DockerBuilderOptions, "installationId" | "names" | "disk"> &
  BuildSegmentOptions & {
    readonly engine: Engine;
    readonly firewall: Firewall | null;
    readonly machine: MachineFiles;
  };

/** Opens the builder of images, with steps as isolated and limited as this machine allows. */
async function openBuilder(
  config: DockerDriverConfig,
  parts: BuilderParts,
): Promise<DockerBuilder> {
  const { toolEnvironment, buildTimeoutSeconds, docker } = config;
  const { engine, firewall, machine } = parts;
  return new DockerBuilder({
    ...parts,
    buildsDir: config.paths.buildsDir,
    runtimeDir: ownFiles.pythonRuntime,
    toolEnvironment,
    registry: docker.registry,
    moreRegistries: docker.moreRegistries,
    engineEnvironment: { DOCKER_HOST: docker.host },
    // Only root can give files to a project's user; another process keeps its own user.
    userOf: (projectId) => {
      const ownUser = process.getuid?.() ?? null;
      return ownUser === 0 ? projectUser(projectId) : (ownUser ?? 0);
    },
    buildTimeoutMs: buildTimeoutSeconds * 1000,
    // Only a firewall with a bridge for builds has rules for them.
    firewall: firewall?.buildBridge ? firewall : null,
    segment: await openSegment(config, parts),
    limits: canLimit(engine)
      ? { engineRoot: engine.facts.dataRoot, machine, limits: buildLimits }
      : null,
    cache: { bytesMax: docker.cacheBytes, hoursMax: cacheHoursMax },
  });
}

/**
 * Why a new installation for which nobody has chosen a driver should not use the Docker driver, as
 * the end of a sentence; null: it should. `baseImage` is the image that apps have by default.
 */
export async function dockerObstacle(
  config: DockerDriverConfig,
  baseImage: string = appFields.baseImage.default,
): Promise<string | null> {
  const { docker, toolEnvironment, paths, appNetwork } = config;
  const socketPath = socketForm.exec(docker.host)?.[1];
  if (socketPath === undefined)
    return `${docker.host} (SLIPWAY_DOCKER_HOST) is not a socket of this machine`;
  // The result is text when no engine answers: the error's code.
  const engine = await connectEngine(socketPath, answerWaitMs).catch(codeOf);
  if (typeof engine === "string") return `no Docker engine answers at ${socketPath} (${engine})`;
  const client = await findClient({ PATH: toolEnvironment["PATH"] ?? "", HOME: paths.buildsDir });
  if (!client.ok) return `a Docker engine answers, but no image can be built: ${client.reason}`;
  const image = engine.calls.getImage(baseImage);
  // When the engine lacks the image, its registry is asked. The result is text only when that fails
  // too: the error's code.
  const inspection = await image
    .inspect()
    .catch(() => image.distribution())
    .catch(codeOf);
  if (typeof inspection === "string")
    return `a Docker engine answers, but neither it nor its registry has the usual base image ${baseImage} (${inspection})`;
  // With `auto`, a process without the right to set rules loses nothing with this driver: the
  // process driver could not give replicas their own networks either.
  const isFilterNeeded = appNetwork.mode === "own" || (appNetwork.mode === "auto" && mayFilter());
  if (!isFilterNeeded || canFilter(engine)) return null;
  return "a Docker engine answers, but the firewall rules for networks of apps cannot be set for it";
}

/** Whether this process may set firewall rules of the machine. */
function mayFilter(): boolean {
  return process.getuid?.() === 0 && isInstalled("nft");
}

/** Whether this process may set firewall rules that apply to the engine's containers. */
function canFilter({ facts }: Engine): boolean {
  return mayFilter() && facts.hasReachableContainers;
}

/** Returns the code of an error of the system; the message of any other error. */
function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
}

/** Connects to the engine at this address. Throws `CannotStart` when none answers. */
async function connect(host: string): Promise<Engine> {
  const socketPath = socketForm.exec(host)?.[1];
  if (socketPath === undefined) {
    const example = host.startsWith("/") ? `unix://${host}` : "unix:///path/of/its/socket";
    throw new CannotStart(
      `SLIPWAY_DOCKER_HOST is ${host}, but must be the socket of an engine of this machine, ${example}: replicas share folders with the platform.`,
    );
  }
  return connectEngine(socketPath).catch((error: unknown) => {
    throw new CannotStart(
      `The driver is docker (SLIPWAY_DRIVER, or the file driver of the data folder), but no Docker engine answers at ${socketPath} (${codeOf(error)}). Start it (systemctl start docker), let the platform's user use it (group docker), or set SLIPWAY_DOCKER_HOST.`,
      { cause: error },
    );
  });
}

/** True when the platform may read and write the engine's files and cgroups. */
function canLimit({ facts }: Engine): boolean {
  return process.getuid?.() === 0 && facts.hasReachableContainers;
}

/** Returns null where the builds of different projects cannot be isolated from each other. */
async function openSegment(
  { docker }: DockerDriverConfig,
  options: BuildSegmentOptions & { readonly engine: Engine },
): Promise<BuildSegment | null> {
  const reason = canFilter(options.engine)
    ? await segmentObstacle(options)
    : "isolating them needs root, nft, and an engine on this machine";
  if (reason === null) return new BuildSegment(options);
  const what = `builds of different projects could read each other's unencrypted traffic (${reason})`;
  if (docker.areBuildsClosed) {
    throw new CannotStart(
      `SLIPWAY_DOCKER_BUILD_NETWORK is closed, but ${what}. Fix that, or set it to open.`,
    );
  }
  options.log.warn(what);
  return null;
}

/** Returns null where the rules cannot be set, or the settings do not want them. */
async function openFirewall(
  { appNetwork, docker }: DockerDriverConfig,
  { engine, installation }: { readonly engine: Engine; readonly installation: string },
): Promise<Firewall | null> {
  const { mode, allowed } = appNetwork;
  const canSet = canFilter(engine);
  if (mode === "own" && !canSet) {
    throw new CannotStart(
      "SLIPWAY_APP_NETWORK is own, but the firewall rules for it need root, the program nft, and an engine on this machine. Fix that, or set it to auto.",
    );
  }
  const isWithoutFirewall = mode === "shared" || !canSet;
  if (docker.areBuildsClosed && isWithoutFirewall) {
    throw new CannotStart(
      "SLIPWAY_DOCKER_BUILD_NETWORK is closed, but the firewall rules for it need root, the program nft, an engine on this machine, and a SLIPWAY_APP_NETWORK other than shared. Fix that, or set it to open.",
    );
  }
  if (isWithoutFirewall) return null;
  const nameServers =
    appNetwork.nameServers.length > 0 ? appNetwork.nameServers : await machineNameServers();
  const buildBridge = docker.areBuildsClosed ? await defaultBridge(engine) : null;
  return {
    installation,
    links: bridges,
    allowed,
    nameServers,
    egress: new Map(),
    buildBridge,
    platform: null,
  };
}
