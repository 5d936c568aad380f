// Creates a replica's folder, writes its record, and starts the app: in its sandbox, detached from
// the platform, with output to files. A failed launch leaves nothing behind.
import { projectUser } from "#drivers/project-user.ts";
import { buildAgain } from "@slipway/contract/advice.ts";
import type { ChildProcess } from "node:child_process";
import { chownSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { StartRefused, type ReplicaSpec } from "#drivers/driver.ts";
import {
  makeOwnedFolder,
  sharedStoragePath,
  storageDirOf,
  storageMounts,
} from "#drivers/storage.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import type { ProjectId } from "#lib/ids.ts";
import { sinceBootMs } from "#lib/clock.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { appEnvironment } from "#drivers/app-environment.ts";
import { processArtifact, type ProcessArtifact } from "./artifact.ts";
import {
  enter,
  enterLines,
  makeGroup,
  niceWords,
  removeGroup,
  type Cgroup,
  type CgroupParent,
} from "./cgroup.ts";
import { keepOnLoopback, replacePort } from "./entrypoint-port.ts";
import { interpreterFolders } from "./interpreter-folders.ts";
import { limitEgressInside, redirectToLoopback } from "./network.ts";
import type { PortPool } from "./port-pool.ts";
import { bootId } from "./process-table.ts";
import { writeWhole } from "#drivers/json-file.ts";
import {
  listenName,
  removeReplica,
  replicaPaths,
  socketPath,
  type ReplicaPaths,
  type ReplicaRecord,
} from "./replica-files.ts";
import { loopback } from "./replica-listens.ts";
import { runToEnd } from "#drivers/run-to-end.ts";
import * as sandboxes from "./sandbox.ts";
import { canOverlay, codeAlias, type SandboxView } from "./sandbox-view.ts";
import type { Shell, ShellPool } from "./shell-pool.ts";
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

export type Launched = {
  readonly child: ChildProcess;
  readonly paths: ReplicaPaths;
  readonly record: ReplicaRecord;
};

/** A short path to the environment of a sandboxed app; tracebacks of the app show this path. */
const venvAlias = "/venv";
/** A sandboxed app's home. */
const homePath = "/home/app";
/** Folder where a sandboxed cortex app creates its socket. */
const listenPath = "/run/slipway";
/** The file descriptor by which the app reports that it has started; `claimStart` opens it. */
const readyFd = 3;
/** Maximum number of processes and threads of one replica, to stop a fork bomb. */
const tasksMax = 4096;

/**
 * Starts the replica. Rejects with `StartRefused`, or with another error when the machine has one,
 * such as a full disk.
 */
export async function launch(spec: ReplicaSpec, context: LaunchContext): Promise<Launched> {
  const artifact = checkedArtifact(spec);
  refuseVariables(spec);
  const choice = await choosePort(spec, context);
  const paths = replicaPaths(join(context.replicasDir, spec.replicaId));
  let cgroup: Cgroup = [];
  let shell: Shell | undefined;
  try {
    const run = programOf(spec, artifact, { paths, context, choice });
    const { replicaId, appId, releaseId, projectId, runtime, cpuCores, memoryGb } = spec;
    const limits = { memoryBytes: memoryBytesOf(spec), cpuCores, tasksMax };
    cgroup = makeGroup(context.cgroups.parents, replicaId, limits);
    await prepareFolders(spec, artifact, { paths, context });
    shell = context.shells.take(paths.state);
    const { port, socket, hint } = choice;
    const record: ReplicaRecord = {
      version: 1,
      replicaId,
      appId,
      releaseId,
      projectId,
      runtime,
      host: shell.address?.address ?? loopback,
      port,
      socket,
      hint,
      program: choice.entrypoint[0] ?? artifact.python,
      appDir: artifact.appDir,
      isSandboxed: context.sandbox.kind === "namespaces",
      bootId,
      cgroup,
      memoryGb,
      startedBootMs: sinceBootMs(),
      claim: context.claim,
    };
    writeWhole(paths.record, record);
    const { egressCidrs } = spec;
    shell.child.stdin.end(
      scriptOf(run, { paths, context, choice, cgroup, shell, replicaId, egressCidrs }),
    );
    // The shell moves itself to the replica's cgroup. The shell's parent has to be moved too, so
    // that the end of the platform's cgroup does not end the replica. The shell cannot do that,
    // since it does not see its parent's process id. The move takes some 10 ms, while the app
    // already starts. The shells of the pool have started, so each has a process id.
    await enter(cgroup, shell.child.pid ?? 0);
    return { child: shell.child, paths, record };
  } catch (error) {
    if (shell !== undefined) await context.shells.end(shell);
    removeGroup(cgroup);
    // The port of a replica with a network of its own does not come from the pool.
    if (choice.port !== null && !hasOwnNetwork(context)) context.ports.release(choice.port);
    await removeReplica(paths);
    throw error;
  }
}

function checkedArtifact(spec: ReplicaSpec): ProcessArtifact {
  if (spec.artifact.kind !== "process") {
    throw new StartRefused(
      `The release was built by the ${spec.artifact.kind} driver and cannot run as a process: ${buildAgain}.`,
    );
  }
  const artifact = processArtifact(spec.artifact);
  if (existsSync(artifact.appDir) && existsSync(artifact.python)) return artifact;
  throw new StartRefused(`The files of the build are no longer on this machine: ${buildAgain}.`);
}

function refuseVariables(spec: ReplicaSpec): void {
  for (const name of Object.keys(spec.environment)) {
    const refusal = sandboxes.variableRefusal(name);
    if (refusal !== null)
      throw new StartRefused(`The variable ${JSON.stringify(name)} cannot be set: ${refusal}.`);
  }
}

type AddressChoice = {
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

/** The port of an app in its own network, when the settings name none. */
const defaultPort = 8000;

function hasOwnNetwork({ sandbox }: LaunchContext): boolean {
  return sandboxes.ownNetwork(sandbox) !== null;
}

/**
 * A cortex app listens on a private socket, or on a port if the socket's path would be too long. A
 * web server listens on its port, in its own network if available.
 */
async function choosePort(spec: ReplicaSpec, context: LaunchContext): Promise<AddressChoice> {
  const { entrypoint } = spec;
  const isCortex = spec.runtime === "cortex";
  const socket = isCortex ? socketPath(context.socketsDir, spec.replicaId) : null;
  if (!isCortex && entrypoint.length === 0)
    throw new StartRefused("A custom app needs an entrypoint; set it in the app's settings.");
  const common = { isCortex, socket, hint: null };
  if (socket !== null) return { ...common, port: null, entrypoint: [] };
  if (hasOwnNetwork(context)) {
    const usesDefault = isCortex || spec.port === 0;
    return { ...common, port: usesDefault ? defaultPort : spec.port, entrypoint };
  }
  if (isCortex) return { ...common, port: await context.ports.take(), entrypoint: [] };
  return { ...common, ...(await choosePortOfMachine(spec, context.ports)) };
}

async function choosePortOfMachine(
  spec: ReplicaSpec,
  ports: PortPool,
): Promise<Pick<AddressChoice, "port" | "entrypoint" | "hint">> {
  const entrypoint = keepOnLoopback(spec.entrypoint);
  // The settings name no port: the program learns it from the variable PORT.
  if (spec.port === 0) return { port: await ports.take(), entrypoint, hint: null };
  // An entrypoint that names the port can be given any free port instead. The call with 0 only
  // finds out whether the entrypoint names the port.
  if (replacePort(entrypoint, spec.port, 0) !== null) {
    const port = await ports.take();
    return { port, entrypoint: replacePort(entrypoint, spec.port, port) ?? entrypoint, hint: null };
  }
  // The program may have the port built in, so that port is the best choice.
  const configured = await ports.takeExactly(spec.port);
  if (configured !== null) return { port: configured, entrypoint, hint: null };
  const port = await ports.take();
  const hint = `Port ${spec.port} is in use on the machine, so the app was told to listen on ${port} by the variable PORT; name the port as an argument of the entrypoint or listen on PORT.`;
  return { port, entrypoint, hint };
}

type LaunchParts = { readonly paths: ReplicaPaths; readonly context: LaunchContext };

/** Makes the replica's folders and files. Copies the app's files unless an overlay shows them. */
async function prepareFolders(
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
function programOf(
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

type ScriptParts = LaunchParts &
  Pick<ReplicaSpec, "replicaId" | "egressCidrs"> & {
    readonly choice: AddressChoice;
    readonly cgroup: Cgroup;
    readonly shell: Shell;
  };

/** The script that the replica's shell executes. */
function scriptOf(run: sandboxes.SandboxedRun, parts: ScriptParts): string {
  const { paths, context, choice, cgroup, shell, replicaId, egressCidrs } = parts;
  const isServer = choice.port !== null;
  const redirect =
    shell.address !== null && isServer
      ? redirectToLoopback(shell.address, sandboxes.sandboxFailedCode)
      : "";
  const network = sandboxes.ownNetwork(context.sandbox);
  const isLimited = network !== null && egressCidrs !== null;
  const limits = isLimited
    ? limitEgressInside(network, egressCidrs, sandboxes.sandboxFailedCode)
    : "";
  // See `claimStart` for the file descriptors. The app reads from /dev/null (9), and writes its
  // errors to `stderr` (5). The script's descriptors are closed for the app, except that a cortex
  // app keeps `readyFd`, at which it reports its start.
  const closeReady = choice.isCortex ? "" : `${readyFd}>&- `;
  const endOthers = context.sandbox.kind === "namespaces" ? endRest : "";
  return sandboxes.runScript(context.sandbox, run, {
    before: `cd ${shellQuoted(paths.dir)} || exit ${sandboxes.sandboxFailedCode}\n${claimStart}\n${enterLines(cgroup)}${redirect}${limits}`,
    entry: replicaId,
    ready: "echo running >&4",
    words: niceWords(cgroup),
    redirections: `<&9 9<&- 2>&5 ${closeReady}4>&- 5>&- 6>&- 7>&- 8>&-`,
    after: `code=$?\n${endOthers}echo "exit $code" >&4`,
  });
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

function memoryBytesOf({ memoryGb }: ReplicaSpec): number {
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

/**
 * The beginning of the shell's script. It claims the start (see `giveUpStart`) by creating the file
 * `pid`, with the shell's line of /proc/self/stat, or with its process id where there is no /proc:
 * after `set -C`, the shell cannot create a file that exists already. The script then sends errors
 * of the sandbox to `state`, and keeps the app's error output as descriptor 5. It opens `stdout`,
 * `stderr` and `ready` twice: the second opening (6, 7 and 8) keeps the app from taking a lease on
 * the file (fcntl(2)), with which the app could block the platform's reads for 45 seconds.
 */
const claimStart = `exec >>stdout 2>>stderr 3>>ready 4>>state 6>>stdout 7>>stderr 8>>ready 9</dev/null || exit ${sandboxes.sandboxFailedCode}
{ read -r stat </proc/self/stat; } 2>/dev/null || stat=$$
set -C
{ echo "$stat" >pid; } 2>/dev/null || exit ${sandboxes.sandboxFailedCode}
set +C
exec 5>&2 2>&4
stopping=
trap stopping=1 TERM`;

/**
 * The line that the shell executes when the app's first process has ended. If the replica is being
 * stopped, it sends SIGTERM to the app's other processes, such as a server that a shell started,
 * and waits for their end. In the namespace of the sandbox these are all processes except the
 * first, which is the shell of this script.
 */
const endRest = `[ -z "$stopping" ] || { kill -TERM -1; while kill -0 -1; do sleep 0.05; done; }\n`;
