// The container in which the platform itself may run. Apps are containers beside it, whose folders,
// addresses and processes are those of the machine: the platform's container has to share them.
import { join } from "node:path";
import type { ContainerInspectInfo, HostConfig } from "dockerode";
import { CannotStart } from "#lib/cannot-start.ts";
import { unlessStatus, type Engine } from "./engine.ts";

/** How this process reaches files of the engine's machine, which may be outside its container. */
export type MachineFiles = {
  /** Stands before a path of the machine; empty where the paths are the same. */
  readonly root: string;
  /** The file with the mounts of the machine. */
  readonly mountinfo: string;
};

/** The files of the machine for a process that is in no container. */
export const sameFiles: MachineFiles = { root: "", mountinfo: "/proc/self/mountinfo" };

/**
 * For root in a container that sees the machine's processes, of which the first one has the
 * machine's files.
 */
const filesOfFirst: MachineFiles = { root: "/proc/1/root", mountinfo: "/proc/1/mountinfo" };

/** What the platform and the engine's machine share. */
export type SharedPaths = {
  /** The folder with the storage of apps, as the engine names it. */
  readonly mountedStorageDir: string;
  readonly machine: MachineFiles;
};

type OwnSide = {
  readonly dataDir: string;
  readonly storageDir: string;
  /** The text of /proc/self/mountinfo. */
  readonly mountinfo: string;
  /** Only root keeps apps apart and limits builds, which needs more of the machine. */
  readonly isRoot: boolean;
};

/**
 * Finds out what the platform shares with the machine. Outside of containers, and in a container
 * of another engine, all paths are the same. Throws `CannotStart` when apps could not be reached,
 * kept apart, limited or given their storage from the platform's own container.
 */
export async function findSharedPaths(
  { calls }: Pick<Engine, "calls">,
  { dataDir, storageDir, mountinfo, isRoot }: OwnSide,
): Promise<SharedPaths> {
  const outside = { mountedStorageDir: storageDir, machine: sameFiles };
  const containerId = ownContainerId(mountinfo);
  if (containerId === null) return outside;
  const inspected = await unlessStatus([404], calls.getContainer(containerId).inspect());
  // Another engine has started it, which shows nothing of itself here.
  if (inspected === undefined) return outside;
  checkNetwork(inspected);
  const mountedStorageDir = pathOnMachine(inspected, storageDir);
  if (mountedStorageDir === null)
    throw new CannotStart(
      `The data folder ${dataDir} is only in the platform's own container, so that the engine cannot give apps their storage. Start the container with a volume there: docker run --volume slipway:${dataDir} …`,
    );
  if (!isRoot) return { mountedStorageDir, machine: sameFiles };
  checkRights(inspected);
  return { mountedStorageDir, machine: filesOfFirst };
}

/** The id of the container that these mounts are of; null: they are of no container. */
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

/** What root in the container must be able to do on the machine. */
function checkRights(inspected: ContainerInspectInfo): void {
  // dockerode does not know the last one, which older engines do not answer: they share cgroups.
  const { Privileged, PidMode, CgroupnsMode }: HostConfig & { readonly CgroupnsMode?: string } =
    inspected.HostConfig;
  const wanted: readonly (readonly [option: string, isGiven: boolean])[] = [
    ["--privileged", Privileged === true],
    ["--pid host", PidMode === "host"],
    ["--cgroupns host", CgroupnsMode !== "private"],
  ];
  const lacking = wanted.filter(([, isGiven]) => !isGiven).map(([option]) => option);
  if (lacking.length === 0) return;
  throw new CannotStart(
    `The platform runs as root in a container of its own, but without ${lacking.join(" and ")} it cannot keep apps apart or limit builds. Start the container with docker run --privileged --pid host --cgroupns host …, or, where you trust all apps, as a user: docker run --user 10001 --group-add <group of the engine's socket> …`,
  );
}

/** Null: the folder is in no mount that is on the machine's disk. */
function pathOnMachine({ Mounts }: ContainerInspectInfo, folder: string): string | null {
  const [nearest] = Mounts.filter(
    ({ Destination }) => folder === Destination || folder.startsWith(`${Destination}/`),
  ).toSorted((one, other) => other.Destination.length - one.Destination.length);
  // A tmpfs has no source.
  if (nearest === undefined || nearest.Source === "") return null;
  return join(nearest.Source, folder.slice(nearest.Destination.length));
}
