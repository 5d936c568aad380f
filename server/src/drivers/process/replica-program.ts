// What a replica on this machine consists of: its program and environment, the view of its sandbox,
// and the folders that it gets.
import { existsSync, chownSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { appEnvironment } from "#drivers/app-environment.ts";
import { StartRefused, type ReplicaSpec } from "#drivers/driver.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import { projectUser } from "#drivers/project-user.ts";
import { runToEnd } from "#drivers/run-to-end.ts";
import {
  makeOwnedFolder,
  sharedStoragePath,
  storageDirOf,
  storageMounts,
} from "#drivers/storage.ts";
import type { ProjectId } from "#lib/ids.ts";
import { processArtifact, type ProcessArtifact } from "./artifact.ts";
import type { CgroupParent } from "./cgroup.ts";
import { interpreterFolders } from "./interpreter-folders.ts";
import type { PortPool } from "./port-pool.ts";
import { listenName, type ReplicaPaths } from "./replica-files.ts";
import { loopback } from "./replica-listens.ts";
import * as sandboxes from "./sandbox.ts";
import { canOverlay, codeAlias, type SandboxView } from "./sandbox-view.ts";
import type { ShellPool } from "./shell-pool.ts";
import { isBelow } from "./system-mounts.ts";

/** The machine's resources for a launch. All paths are absolute. */
export type LaunchContext = {
  readonly dataDir: string;
  readonly replicasDir: string;
  /** Has one folder per project, which the project's apps share. */
  readonly storageDir: string;
  /**
   * Folder for sockets of cortex apps; its path must be short, since socket paths have a length
   * limit.
   */
  readonly socketsDir: string;
  /** The Python files of the cortex runtime. */
  readonly runtimeDir: string;
  readonly sandbox: sandboxes.Sandbox;
  readonly ports: PortPool;
  readonly shells: ShellPool;
  readonly cgroups: { readonly parents: readonly CgroupParent[] };
  /** The replica's claim of a pool, with the GPUs that it may use. */
  readonly claim: CardClaim;
  /** Aborts a long copy of files. It does not end a spawned app: the caller has to do that. */
  readonly signal: AbortSignal;
};

/** A short path to the environment of a sandboxed app; tracebacks of the app show this path. */
const venvAlias = "/venv";
/** A sandboxed app's home. */
export const homePath = "/home/app";
/** Folder where a sandboxed cortex app creates its socket. */
export const listenPath = "/run/slipway";
/** The file descriptor by which the app reports that it has started; `claimStart` opens it. */
export const readyFd = 3;
/** The artifact of a release. Throws `StartRefused` when its files cannot be run here. */
export function checkedArtifact(spec: ReplicaSpec): ProcessArtifact {
  if (spec.artifact.kind !== "process") {
    throw new StartRefused(
      `The release was built by the ${spec.artifact.kind} driver and cannot run as a process: ${buildAgain}.`,
    );
  }
  const artifact = processArtifact(spec.artifact);
  if (existsSync(artifact.appDir) && existsSync(artifact.python)) return artifact;
  throw new StartRefused(`The files of the build are no longer on this machine: ${buildAgain}.`);
}

/** Throws `StartRefused` when a variable has a name that it cannot have. */
export function refuseVariables(spec: ReplicaSpec): void {
  for (const name of Object.keys(spec.environment)) {
    const refusal = sandboxes.variableRefusal(name);
    if (refusal !== null)
      throw new StartRefused(`The variable ${JSON.stringify(name)} cannot be set: ${refusal}.`);
  }
}

export type AddressChoice = {
  readonly isCortex: boolean;
  /** Null: the app listens at `socket`. */
  readonly port: number | null;
  /** The platform's path of the socket of a cortex app. */
  readonly socket: string | null;
  /** The start command, with the port that was chosen; empty for cortex. */
  readonly entrypoint: readonly string[];
  /** See `ReplicaRecord`. */
  readonly hint: string | null;
};

/** Whether each replica has a network of its own. */
export function hasOwnNetwork({ sandbox }: LaunchContext): boolean {
  return sandboxes.ownNetwork(sandbox) !== null;
}

export type LaunchParts = { readonly paths: ReplicaPaths; readonly context: LaunchContext };

/** Makes the replica's folders and files. Copies the app's files unless an overlay shows them. */
export async function prepareFolders(
  spec: ReplicaSpec,
  artifact: ProcessArtifact,
  { paths, context }: LaunchParts,
): Promise<void> {
  const user = ownerOf(spec.projectId, context.sandbox);
  mkdirSync(context.replicasDir, { recursive: true, mode: 0o700 });
  mkdirSync(paths.dir, { mode: 0o700 });
  mkdirSync(paths.overlayWork);
  for (const dir of [paths.home, paths.temporary, paths.code, paths.listen])
    makeOwnedFolder(dir, user);
  mkdirSync(context.socketsDir, { recursive: true, mode: 0o700 });
  for (const { from } of storageMounts(spec, context.storageDir)) makeOwnedFolder(from, user);
  for (const path of [paths.stdout, paths.stderr, paths.ready]) makeOutput(path, user);
  // The builder may have written the app's folder as root. The app runs as another user, and must
  // be able to write there. With -h, a link itself gets the owner, and not what it leads to.
  if (user !== null && statSync(artifact.appDir).uid !== user) {
    await runToEnd("chown", ["-R", "-h", `${user}:${user}`, artifact.appDir], {
      signal: context.signal,
    });
  }
  if (usesOverlay(artifact, context)) return;
  // With `--reflink=auto`, the copy shares the blocks of the files where the file system can do
  // that. The `cp` of macOS does not know this option.
  const reflink = process.platform === "linux" ? ["--reflink=auto"] : [];
  await runToEnd("cp", ["-a", ...reflink, `${artifact.appDir}/.`, paths.code], {
    signal: context.signal,
  });
}

/** The user that the apps of a project run as; null: the platform's own user. */
export function ownerOf(projectId: ProjectId, sandbox: sandboxes.Sandbox): number | null {
  return sandbox.kind === "namespaces" && !sandbox.isUserOwned ? projectUser(projectId) : null;
}

/** Whether the app's changes go to an overlay of its files, so that no copy is needed. */
function usesOverlay(artifact: ProcessArtifact, { sandbox, replicasDir }: LaunchContext): boolean {
  return (
    sandbox.kind === "namespaces" &&
    sandbox.hasOverlays &&
    canOverlay(artifact.appDir) &&
    canOverlay(replicasDir)
  );
}

/**
 * The replica's program and its environment, which has the secrets of the app. Throws
 * `StartRefused` when no process can be started with such words or variables.
 */
export function programOf(
  spec: ReplicaSpec,
  artifact: ProcessArtifact,
  { paths, context, choice }: LaunchParts & { readonly choice: AddressChoice },
): sandboxes.SandboxedRun {
  const isSandboxed = context.sandbox.kind === "namespaces";
  const view = viewOf(spec, artifact, { paths, context });
  const { venvDir, python } = isSandboxed ? seenIn(view, artifact) : artifact;
  const program =
    spec.runtime === "cortex" ? [python, join(context.runtimeDir, "start.py")] : choice.entrypoint;
  // The same folders as a sandboxed app sees them, and as they are on the machine.
  const seenFolders = { homeDir: homePath, temporaryDir: "/tmp", storageDir: sharedStoragePath };
  const ownFolders = {
    homeDir: paths.home,
    temporaryDir: paths.temporary,
    storageDir: storageDirOf(spec, context.storageDir),
  };
  const folders = isSandboxed ? seenFolders : ownFolders;
  const appPaths = {
    ...folders,
    venvDir,
    python,
    takesRootPath: artifact.takesRootPath,
    gpus: context.claim.gpus,
  };
  const environment = appEnvironment(spec, appPaths, {
    port: choice.port,
    host: hasOwnNetwork(context) ? "0.0.0.0" : loopback,
    readyFd,
    socket: isSandboxed && choice.socket !== null ? `${listenPath}/${listenName}` : choice.socket,
  });
  // `choosePort` has refused an empty entrypoint.
  const command = program as [string, ...string[]];
  const refusal = sandboxes.wordsRefusal({ command, environment });
  if (refusal !== null) throw new StartRefused(`The replica could not be started: ${refusal}.`);
  const cwd = isSandboxed ? codeAlias : paths.code;
  return { command, cwd, environment, view, home: homePath, user: projectUser(spec.projectId) };
}

/** The paths of the app's Python environment and its interpreter, as the app sees them. */
function seenIn(
  { aliases = [] }: Pick<SandboxView, "aliases">,
  { venvDir, python }: ProcessArtifact,
) {
  const hasAlias = aliases.some(({ at }) => at === venvAlias);
  const isAliasUsed = hasAlias && venvDir !== null && isBelow(python, venvDir);
  if (!isAliasUsed) return { venvDir, python };
  return { venvDir: venvAlias, python: venvAlias + python.slice(venvDir.length) };
}

/** Creates a file for output. The app's user owns it, since the app may open /dev/stdout again. */
function makeOutput(path: string, user: number | null): void {
  writeFileSync(path, "", { flag: "a", mode: 0o600 });
  if (user !== null) chownSync(path, user, user);
}

/** The memory of a replica, in bytes. */
export function memoryBytesOf({ memoryGb }: ReplicaSpec): number {
  return Math.round(memoryGb * 1e9);
}

function viewOf(
  spec: ReplicaSpec,
  artifact: ProcessArtifact,
  { paths, context }: LaunchParts,
): Omit<SandboxView, "account"> {
  const { appDir, python, venvDir } = artifact;
  const isOverlaid = usesOverlay(artifact, context);
  const { base } = context.shells;
  const placed = [
    ...storageMounts(spec, context.storageDir),
    { from: paths.home, at: homePath },
    { from: paths.listen, at: listenPath },
  ];
  const folders = new Set(interpreterFolders(python, [homedir(), context.dataDir]));
  if (venvDir !== null) folders.add(venvDir);
  if (spec.runtime === "cortex") folders.add(context.runtimeDir);
  const readOnly = [...folders];
  refuseOverlap(spec, [appDir, ...readOnly]);
  const aliases = [{ of: appDir, at: codeAlias }];
  // The environment gets no alias if the app needs a folder of the machine at the alias's path.
  const hasAlias = venvDir !== null && !readOnly.some((path) => isBelow(path, venvAlias));
  if (hasAlias) aliases.push({ of: venvDir, at: venvAlias });
  // Without an overlay, the replica's copy of the app's files takes the place of `appDir`.
  return {
    ...base,
    readOnly,
    writable: [],
    temporaryDir: paths.temporary,
    sharedMemoryBytes: memoryBytesOf(spec),
    overlays: isOverlaid ? [{ lower: appDir, upper: paths.code, work: paths.overlayWork }] : [],
    placed: isOverlaid ? placed : [...placed, { from: paths.code, at: appDir }],
    aliases,
  };
}

/**
 * Throws `StartRefused` when the app's own storage would be mounted over a folder that the app
 * needs, or inside one that it must not change.
 */
function refuseOverlap({ storagePath: at }: ReplicaSpec, needed: readonly string[]): void {
  if (at === null) return;
  const other = needed.find((path) => isBelow(path, at) || isBelow(at, path));
  if (other === undefined) return;
  throw new StartRefused(
    `storagePath is ${at}, but the app's programs are in ${other} here: choose another path.`,
  );
}
