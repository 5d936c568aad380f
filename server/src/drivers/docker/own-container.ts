// The container in which the platform itself may run. Apps are containers beside it, whose folders,
// addresses and processes are those of the machine: the platform's container has to share them.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { ContainerInspectInfo } from "dockerode";
import { CannotStart } from "#lib/cannot-start.ts";
import { readText } from "#drivers/process/read-text.ts";
import { unlessStatus, type Engine, type EngineFacts } from "./engine.ts";

/** How this process reaches files of the engine's machine, which may be outside its container. */
export type MachineFiles = {
  /** Stands before a path of the machine; empty where the paths are the same. */
  readonly root: string;
  /** The file with the mounts of the machine. */
  readonly mountinfo: string;
};

/** The files of the machine for a process that is in no container. */
export const sameFiles: MachineFiles = { root: "", mountinfo: "/proc/self/mountinfo" };

/** What the platform and the engine's machine share. */
export type SharedPaths = {
  /** The data folder, which no other platform of the machine has under this name. */
  readonly mountedDataDir: string;
  /** The folder with the storage of apps, as the engine names it. */
  readonly mountedStorageDir: string;
  readonly machine: MachineFiles;
};

type OwnSide = {
  readonly dataDir: string;
  readonly storageDir: string;
  /** The folder /proc. */
  readonly processes: string;
  /** Whether the platform runs as root: otherwise it keeps no apps apart and limits no builds. */
  readonly isRoot: boolean;
};

/**
 * Finds out what the platform shares with the machine. Outside of containers, and in a container
 * of another engine, all paths are the same. Throws `CannotStart` when apps could not be reached,
 * kept apart, limited or given their storage from the platform's own container.
 */
export async function findSharedPaths(
  { calls, facts }: Pick<Engine, "calls"> & { readonly facts: Pick<EngineFacts, "dataRoot"> },
  { dataDir, storageDir, processes, isRoot }: OwnSide,
): Promise<SharedPaths> {
  const outside = {
    mountedDataDir: dataDir,
    mountedStorageDir: storageDir,
    machine: sameFiles,
  };
  const containerId = ownContainerId(readText(join(processes, "self/mountinfo")));
  if (containerId === null) return outside;
  const inspected = await unlessStatus([404], calls.getContainer(containerId).inspect());
  // Another engine has started the platform's container, and nothing of that engine is seen here.
  if (inspected === undefined) return outside;
  checkNetwork(inspected);
  const mountedStorageDir = pathOnMachine(inspected, storageDir);
  if (mountedStorageDir === null)
    throw new CannotStart(
      `The data folder ${dataDir} is only in the platform's own container, so that the engine cannot give apps their storage. Start the container with a volume there: docker run --volume slipway:${dataDir} …`,
    );
  const mountedDataDir = pathOnMachine(inspected, dataDir) ?? dataDir;
  if (!isRoot) return { mountedDataDir, mountedStorageDir, machine: sameFiles };
  checkRights(inspected);
  const machine = filesOfMachine(processes, facts.dataRoot);
  return { mountedDataDir, mountedStorageDir, machine };
}

/**
 * The id of the container that these mounts are of; null: they are of no container. An engine
 * mounts the file /etc/hostname from the folder that it keeps for the container.
 */
export function ownContainerId(mountinfo: string): string | null {
  return /\/([0-9a-f]{64})\/(?:userdata\/)?hostname \/etc\/hostname /.exec(mountinfo)?.[1] ?? null;
}

function checkNetwork({ HostConfig }: ContainerInspectInfo): void {
  const { NetworkMode } = HostConfig;
  if (NetworkMode === "host") return;
  throw new CannotStart(
    `The platform's own container is in the network ${NetworkMode}, from which it does not reach the containers of apps. Start it in the machine's network: docker run --network host …`,
  );
}

/**
 * What root in the container must be able to do on the machine: enter networks of builds, set rules
 * of the firewall, and reach files and cgroups through a process of the machine.
 */
const capabilities = ["SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE"];

/** Rights of a container: dockerode does not know all of them, and engines leave some out. */
type GivenRights = {
  readonly Privileged?: boolean;
  readonly PidMode?: string;
  readonly CapAdd?: readonly string[] | null;
  /** Left out by older engines, whose containers all share the machine's cgroups. */
  readonly CgroupnsMode?: string;
};

function checkRights({ HostConfig, AppArmorProfile }: ContainerInspectInfo): void {
  const { Privileged, PidMode, CapAdd, CgroupnsMode } = HostConfig as GivenRights;
  const added = (CapAdd ?? []).map((name) => name.replace(/^CAP_/, ""));
  const isAble = (name: string): boolean =>
    Privileged === true || added.includes("ALL") || added.includes(name);
  const demanded: readonly (readonly [option: string, isGiven: boolean])[] = [
    ["--pid host", PidMode === "host"],
    ["--cgroupns host", CgroupnsMode !== "private"],
    ...capabilities.map((name) => [`--cap-add ${name}`, isAble(name)] as const),
    ["--security-opt apparmor=unconfined", AppArmorProfile !== "docker-default"],
  ];
  const lacking = demanded.filter(([, isGiven]) => !isGiven).map(([option]) => option);
  if (lacking.length === 0) return;
  throw new CannotStart(
    `The platform runs as root in its own container, but cannot keep apps apart and limit builds there. Start the container with ${lacking.join(" ")}, or, if you trust all apps, as a user: docker run --user 10001 --group-add <group of the engine's socket> …`,
  );
}

/**
 * The machine's files as one of its processes sees them: the process with the lowest id that the
 * machine does not hide. Throws `CannotStart` when the machine hides all of them.
 */
function filesOfMachine(processes: string, dataRoot: string): MachineFiles {
  const pids = readdirSync(processes).filter((name) => /^\d+$/.test(name));
  for (const pid of pids.toSorted((one, other) => Number(one) - Number(other))) {
    const root = join(processes, pid, "root");
    const mountinfo = join(processes, pid, "mountinfo");
    // Only a process outside of containers sees the network namespaces (nsfs) of the containers.
    if (existsSync(join(root, dataRoot)) && / - nsfs /.test(readText(mountinfo)))
      return { root, mountinfo };
  }
  throw new CannotStart(
    `The platform runs as root in its own container, but no process of the machine shows it the engine's folder ${dataRoot}, in which builds are limited. Where SELinux keeps containers from that, start this one with --security-opt label=disable.`,
  );
}

/**
 * Returns the path of the folder on the machine; null: the folder is in no mount that is on the
 * machine's disk.
 */
function pathOnMachine({ Mounts }: ContainerInspectInfo, folder: string): string | null {
  const [nearest] = Mounts.filter(
    ({ Destination }) => folder === Destination || folder.startsWith(`${Destination}/`),
  ).toSorted((one, other) => other.Destination.length - one.Destination.length);
  // A tmpfs has no source.
  if (nearest === undefined || nearest.Source === "") return null;
  return join(nearest.Source, folder.slice(nearest.Destination.length));
}
