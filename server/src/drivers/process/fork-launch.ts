// How a replica is started from a zygote: what the process that attaches it to the machine is asked
// for.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { ReplicaId } from "#lib/ids.ts";
import type { Attachers, AttachRequest } from "./attachers.ts";
import { filesOf, type Cgroup } from "./cgroup.ts";
import { forkMounts, type ImportedFiles } from "./fork-mounts.ts";
import { limitEgressInside, linkLines } from "./network.ts";
import type { ReplicaPaths } from "./replica-files.ts";
import * as sandboxes from "./sandbox.ts";
import type { Shell } from "./shell-pool.ts";

/** A zygote that waits for starts. */
export type ForkSource = {
  readonly id: ReplicaId;
  readonly sandbox: sandboxes.Namespaces;
  readonly attachers: Attachers;
  /** The path of the socket at which it listens, as the machine sees it. */
  readonly socket: string;
  readonly imported: ImportedFiles;
};

/** The flags of clone(2). */
const newNamespaces = { mount: 0x2_0000, ipc: 0x800_0000, pid: 0x2000_0000, network: 0x4000_0000 };

/** A start from a zygote, and the process that carries it out. */
export type Fork = { readonly zygote: ForkSource; readonly attacher: Shell };

/**
 * Makes the folders that only overlays over the zygote's files need, and takes an attacher. Throws
 * when no address is free, or no process can be started.
 */
export function prepareFork(paths: ReplicaPaths, zygote: ForkSource): Fork {
  const { imported, attachers } = zygote;
  if (imported.home !== null) mkdirSync(paths.homeWork);
  if (imported.temporary !== null) mkdirSync(paths.temporaryWork);
  return { zygote, attacher: attachers.take() };
}

export type ForkParts = Fork & {
  readonly paths: ReplicaPaths;
  readonly cgroup: Cgroup;
  readonly appDir: string;
  readonly egressCidrs: readonly string[] | null;
  /** The replica's memory, which also bounds its shared memory. */
  readonly memoryBytes: number;
};

/** What the attacher gets on standard input. It has secrets: it is never logged. */
export function attachRequest(run: sandboxes.SandboxedRun, parts: ForkParts): AttachRequest {
  const { paths, cgroup, attacher, zygote, appDir, egressCidrs } = parts;
  const { imported, sandbox } = zygote;
  const network = sandboxes.ownNetwork(sandbox);
  const { mount, ipc, pid } = newNamespaces;
  const rules =
    network !== null && egressCidrs !== null
      ? limitEgressInside(network, egressCidrs, sandboxes.sandboxFailedCode)
      : "";
  return {
    folder: paths.dir,
    socket: zygote.socket,
    start: {
      namespaces: mount | ipc | pid | (network === null ? 0 : newNamespaces.network),
      environment: ownVariables(run.environment),
      cwd: run.cwd,
    },
    cgroupFiles: filesOf(cgroup),
    network: attacher.address && { link: linkLines(attacher.address.address), rules },
    mounts: forkMounts({ paths, appDir, imported, sharedMemoryBytes: parts.memoryBytes }, sandbox),
    entry: { folder: sandboxes.forkEntryDir, text: sandboxes.entryText(sandbox, run) },
  };
}

/** The variables that differ between replicas of one release; the zygote has all others. */
function ownVariables(
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const own = Object.entries(environment).filter(([name]) => isOwnVariable(name));
  return Object.fromEntries(own);
}

/** Whether a variable belongs to one replica. The report's descriptor is passed as such. */
export function isOwnVariable(name: string): boolean {
  if (name === "SLIPWAY_READY_FD") return false;
  return name.startsWith("SLIPWAY_") || name === "CUDA_VISIBLE_DEVICES";
}

/** The path of the zygote's socket in its own folder, as the machine sees it. */
export function zygoteSocket(paths: Pick<ReplicaPaths, "listen">): string {
  return join(paths.listen, zygoteSocketName);
}

/** The name of a zygote's socket in the folder where an app listens. */
export const zygoteSocketName = "zygote.sock";
