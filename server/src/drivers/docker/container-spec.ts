// Describes the container of a replica for the engine: limits, mounts, environment, and the rights
// that the app does not have. Pure.
import type { ContainerCreateOptions } from "dockerode";
import { appEnvironment, cardsAmong, type AppPaths } from "#drivers/app-environment.ts";
import { hostAddress, hostName } from "#drivers/app-firewall.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import type { AppId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { dockerArtifact } from "./artifact.ts";

/** Labels of everything that the platform makes in an engine. */
export const labels = {
  /** The installation that made it. */
  instance: "slipway.instance",
  app: "slipway.app",
  /** The build that made an image. */
  build: "slipway.build",
  replica: "slipway.replica",
  release: "slipway.release",
  project: "slipway.project",
  port: "slipway.port",
  /** The first word of the start command, for messages. */
  program: "slipway.program",
  memoryGb: "slipway.memory-gb",
  /** What the app of a network may reach (egressCidrs), as JSON. */
  egress: "slipway.egress",
  /** The replica's claim in a pool, as JSON. */
  claim: "slipway.claim",
  /** `true` for the cortex runtime, which marks the lines of runs. */
  frames: "slipway.frames",
} as const;

/** The facts of a replica in its container's labels, for a later process of the platform. */
export type ContainerRecord = Pick<
  ReplicaSpec,
  "replicaId" | "appId" | "releaseId" | "projectId" | "memoryGb"
> & {
  readonly port: number;
  readonly program: string;
  readonly hasFrames: boolean;
  readonly claim: CardClaim;
};

/** What the container of a replica depends on besides the replica's own spec. */
export type ContainerContext = {
  readonly claim: CardClaim;
  readonly installationId: string;
  /** The app's network. */
  readonly network: string;
  /** Host folders of the storage, and where the app sees them. */
  readonly storage: readonly { readonly from: string; readonly at: string }[];
  /** The number of cores of the engine's machine; no container can get more. */
  readonly cores: number;
  /** The OCI runtime; undefined: the engine's default. */
  readonly runtime: string | undefined;
  /** The name servers of the container; null: the engine's own. Empty: none. */
  readonly nameServers: readonly string[] | null;
  /** The maximum number of open files of a process. */
  readonly filesMax: number;
  /**
   * Whether the container's port is published on the loopback address, because the container's own
   * address cannot be reached.
   */
  readonly isPublished: boolean;
};

/**
 * The port in the container for all cortex apps, and for other apps when neither the settings nor
 * the Dockerfile name one.
 */
const defaultPort = 8000;
/** The maximum number of processes and threads of a container. */
const tasksMax = 4096;
/** Two files of this size per container; the oldest lines go first. */
const logFileSize = "32m";

/**
 * Returns the port on which the app listens in its container. In the settings, 0 stands for no
 * port. `exposed` is the only port that the Dockerfile names; null: it names none or several.
 */
function portOf(
  { runtime, port }: Pick<ReplicaSpec, "runtime" | "port">,
  exposed: number | null,
): number {
  if (runtime === "cortex") return defaultPort;
  return port === 0 ? (exposed ?? defaultPort) : port;
}

/**
 * Returns the description of a replica's container. It contains the app's secrets in plain text, so
 * only the engine may get it.
 */
export function containerSpec(
  spec: ReplicaSpec,
  context: ContainerContext,
): ContainerCreateOptions {
  const { image, user, takesRootPath, exposedPort } = dockerArtifact(spec.artifact);
  const port = portOf(spec, exposedPort);
  const memoryBytes = Math.round(spec.memoryGb * 1e9);
  const hasEntrypoint = spec.runtime === "custom" && spec.entrypoint.length > 0;
  return {
    name: containerName(context.installationId, spec.replicaId),
    Image: image,
    User: `${user}:${user}`,
    Env: Object.entries(environmentOf(spec, { port, takesRootPath, gpus: context.claim.gpus })).map(
      ([name, value]) => `${name}=${value}`,
    ),
    Labels: labelsOf(spec, context, port),
    // Turns off the image's own health check, since the platform checks the app itself.
    Healthcheck: { Test: ["NONE"] },
    ...(hasEntrypoint ? { Entrypoint: [...spec.entrypoint], Cmd: [] } : {}),
    ...(context.isPublished ? { ExposedPorts: { [`${port}/tcp`]: {} } } : {}),
    HostConfig: {
      // The engine's own first process passes signals on, and removes processes that have ended.
      Init: true,
      ...(context.runtime === undefined ? {} : { Runtime: context.runtime }),
      NetworkMode: context.network,
      ...(context.isPublished
        ? { PortBindings: { [`${port}/tcp`]: [{ HostIp: "127.0.0.1", HostPort: "" }] } }
        : {}),
      Dns: dnsOf(context),
      ExtraHosts: [`${hostName}:${hostAddress}`],
      Mounts: context.storage.map(({ from, at }) => ({ Type: "bind", Source: from, Target: at })),
      Memory: memoryBytes,
      // The sum of memory and swap: no swap.
      MemorySwap: memoryBytes,
      // The engine's default, 64 MB, is too little for some apps.
      ShmSize: memoryBytes,
      NanoCpus: Math.round(Math.min(spec.cpuCores, context.cores) * 1e9),
      PidsLimit: tasksMax,
      Ulimits: [
        { Name: "nofile", Soft: context.filesMax, Hard: context.filesMax },
        { Name: "core", Soft: 0, Hard: 0 },
      ],
      ...deviceRequests(context.claim),
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      // The engine splits lines longer than 16 KiB. Unlike `local`, this format keeps the newline
      // at the end of the last part.
      LogConfig: { Type: "json-file", Config: { "max-size": logFileSize, "max-file": "2" } },
      RestartPolicy: { Name: "no" },
    },
  };
}

/**
 * The engine takes an empty list for no choice: it would ask the machine's own name servers for the
 * app, past the firewall. So when `nameServers` is empty, the container gets an address at which
 * nothing answers.
 */
function dnsOf({ nameServers }: ContainerContext): string[] {
  return nameServers?.length === 0 ? ["127.0.0.1"] : [...(nameServers ?? [])];
}

/** Requests the cards of the replica through NVIDIA's container toolkit. */
function deviceRequests({ gpus }: CardClaim) {
  const ids = cardsAmong(gpus);
  return ids.length === 0
    ? {}
    : { DeviceRequests: [{ Driver: "nvidia", DeviceIDs: ids, Capabilities: [["gpu"]] }] };
}

/**
 * Returns a name that is unique even on an engine that several installations share: 12 characters
 * of an installation's id distinguish it from others.
 */
export function containerName(installationId: string, replicaId: ReplicaId): string {
  return `slipway-${installationId.replaceAll(/[^A-Za-z0-9]/g, "").slice(0, 12)}-${replicaId}`;
}

function environmentOf(
  spec: ReplicaSpec,
  {
    port,
    takesRootPath,
    gpus,
  }: Pick<AppPaths, "takesRootPath" | "gpus"> & { readonly port: number },
): Record<string, string> {
  const paths = {
    homeDir: "/home/app",
    temporaryDir: "/tmp",
    storageDir: "/persistent-storage",
    // The image sets PATH.
    venvDir: null,
    python: null,
    takesRootPath,
    gpus,
  };
  const at = { port, socket: null, host: "0.0.0.0", readyFd: null };
  // NVIDIA's OCI runtime gives a container all cards that this variable names, whatever the
  // requests say. The platform always sets it: otherwise an image or an app could name all cards.
  // `void` means none.
  return {
    ...appEnvironment(spec, paths, at),
    NVIDIA_VISIBLE_DEVICES: cardsAmong(gpus).join(",") || "void",
  };
}

function labelsOf(
  spec: ReplicaSpec,
  { installationId, claim }: ContainerContext,
  port: number,
): Record<string, string> {
  return {
    [labels.instance]: installationId,
    [labels.app]: spec.appId,
    [labels.replica]: spec.replicaId,
    [labels.release]: spec.releaseId,
    [labels.project]: spec.projectId,
    [labels.port]: String(port),
    [labels.program]: spec.entrypoint[0] ?? "the image's start command",
    [labels.memoryGb]: String(spec.memoryGb),
    [labels.frames]: String(spec.runtime === "cortex"),
    [labels.claim]: JSON.stringify(claim),
  };
}

/** Returns what the labels say of a replica; null for a container without these labels. */
export function recordInLabels(
  allLabels: Readonly<Record<string, string>>,
): ContainerRecord | null {
  const replicaId = allLabels[labels.replica];
  if (replicaId === undefined) return null;
  return {
    replicaId: replicaId as ReplicaId,
    appId: allLabels[labels.app] as AppId,
    releaseId: allLabels[labels.release] as ReleaseId,
    projectId: allLabels[labels.project] as ProjectId,
    port: Number(allLabels[labels.port]),
    program: allLabels[labels.program] ?? "",
    memoryGb: Number(allLabels[labels.memoryGb]),
    hasFrames: allLabels[labels.frames] === "true",
    claim: JSON.parse(allLabels[labels.claim] ?? "{}") as CardClaim,
  };
}
