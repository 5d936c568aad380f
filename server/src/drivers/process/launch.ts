// Creates a replica's folder, writes its record, and spawns the app: in its sandbox, detached from the platform, with
// output to files. A failed launch leaves nothing behind.
import { buildAgain } from "@slipway/contract/advice.ts";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chownSync, closeSync, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { StartRefused, type ReplicaSpec } from "#drivers/driver.ts";
import { appEnvironment } from "./app-environment.ts";
import { processArtifact, type ProcessArtifact } from "./artifact.ts";
import { entering, makeGroup, removeGroup, type Cgroup, type CgroupParent } from "./cgroup.ts";
import { keepOnLoopback, replacePort } from "./entrypoint-port.ts";
import { writeEtc } from "./etc-folder.ts";
import { interpreterFolders } from "./interpreter-folders.ts";
import type { NetworkPool, PreparedNetwork } from "./network-pool.ts";
import type { PortPool } from "./port-pool.ts";
import { bootId } from "./process-table.ts";
import {
  listenName,
  removeReplica,
  replicaPaths,
  socketPath,
  writeWhole,
  type ReplicaPaths,
  type ReplicaRecord,
} from "./replica-files.ts";
import { loopback } from "./replica-listens.ts";
import { runToEnd } from "./run-to-end.ts";
import { projectUser, sandboxed, sandboxFailedCode, variableRefusal, type Sandbox } from "./sandbox.ts";
import { canOverlay, codeAlias, type SandboxView } from "./sandbox-view.ts";

/** The machine's resources for a launch. All paths are absolute. */
export type LaunchContext = {
  readonly instanceId: string;
  /** Hidden from every app. */
  readonly dataDir: string;
  readonly replicasDir: string;
  /** One folder per project, shared by its apps. */
  readonly storageDir: string;
  /** Folder for sockets of cortex apps; its path must be short, since socket paths have a length limit. */
  readonly socketsDir: string;
  /** The Python files of the cortex runtime. */
  readonly runtimeDir: string;
  readonly sandbox: Sandbox;
  readonly ports: PortPool;
  /** Null: replicas share the machine's network. */
  readonly networks: NetworkPool | null;
  readonly cgroups: { readonly places: readonly CgroupParent[] };
  /** Aborts long copying; once the app is spawned, the caller stops it. */
  readonly signal: AbortSignal;
};

export type Launched = { readonly child: ChildProcess; readonly paths: ReplicaPaths; readonly record: ReplicaRecord };

/** Path of the project's storage in a sandboxed app. */
const storagePath = "/persistent-storage";
/** Folder where a sandboxed cortex app creates its socket. */
const listenPath = "/run/slipway";
/** Maximum number of processes and threads of one replica, to stop a fork bomb. */
const tasksMax = 4096;

/** Spawns the replica. Rejects with `StartRefused`. */
export async function launch(spec: ReplicaSpec, context: LaunchContext): Promise<Launched> {
  const artifact = checkedArtifact(spec);
  refuseVariables(spec);
  const choice = await chooseAddress(spec, context);
  const paths = replicaPaths(join(context.replicasDir, spec.replicaId));
  let cgroup: Cgroup = [];
  try {
    const { replicaId, appId, releaseId, projectId, runtime, cpuCores, memoryGb } = spec;
    const limits = { memoryBytes: memoryBytesOf(spec), cpuCores, tasksMax };
    cgroup = makeGroup(context.cgroups.places, replicaId, limits);
    await prepareFolders(spec, artifact, { paths, context });
    const { host, port, socket, hint } = choice;
    const record: ReplicaRecord = {
      version: 1,
      ...{ replicaId, instanceId: context.instanceId, appId, releaseId, projectId, runtime },
      ...{ host, port, socket, hint },
      program: choice.entrypoint[0] ?? artifact.python,
      isSandboxed: context.sandbox.kind === "namespaces",
      ...{ bootId, cgroup, memoryGb },
    };
    writeWhole(paths.record, record);
    const child = await spawnReplica(spec, artifact, { paths, context, choice, cgroup });
    return { child, paths, record };
  } catch (error) {
    removeGroup(cgroup);
    if (choice.port !== null && choice.network === null) context.ports.release(choice.port);
    await removeReplica(paths);
    throw error;
  } finally {
    if (choice.network?.descriptor !== undefined) closeSync(choice.network.descriptor);
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
    const refusal = variableRefusal(name);
    if (refusal !== null) throw new StartRefused(`The variable ${JSON.stringify(name)} cannot be set: ${refusal}.`);
  }
}

type AddressChoice = {
  /** The replica's host for connections to a port; unused for a cortex app with a socket. */
  readonly host: string;
  /** Null: it listens at `socket`. */
  readonly port: number | null;
  /** The platform's path of the socket of a cortex app. */
  readonly socket: string | null;
  readonly entrypoint: readonly string[];
  readonly hint: string | null;
  /** The replica's own network; null: none. */
  readonly network: Pick<PreparedNetwork, "setup" | "descriptor"> | null;
};

/** A cortex app listens on a private socket; a web server on its port, in its own network if available. */
async function chooseAddress(spec: ReplicaSpec, context: LaunchContext): Promise<AddressChoice> {
  const { networks, ports } = context;
  const isCortex = spec.runtime === "cortex";
  const socket = isCortex ? socketPath(context.socketsDir, spec.replicaId) : null;
  if (!isCortex && spec.entrypoint.length === 0)
    throw new StartRefused("A custom app needs an entrypoint; set it in the app's settings.");
  if (networks !== null) {
    const port = socket !== null ? null : isCortex || spec.port === 0 ? anyPort : spec.port;
    const { place, ...network } = networks.take(port !== null);
    return { host: place.address, port, socket, entrypoint: spec.entrypoint, hint: null, network };
  }
  const own = { host: loopback, hint: null, network: null };
  if (isCortex) return { ...own, port: socket === null ? await ports.take() : null, socket, entrypoint: [] };
  return { ...own, socket, ...(await choosePort(spec, ports)) };
}

/** The port in the app's own network when the settings name none. */
const anyPort = 8000;

async function choosePort(
  spec: ReplicaSpec,
  ports: PortPool,
): Promise<Pick<AddressChoice, "port" | "entrypoint" | "hint">> {
  const entrypoint = keepOnLoopback(spec.entrypoint);
  if (replacePort(entrypoint, spec.port, 0) !== null) {
    const port = await ports.take();
    return { port, entrypoint: replacePort(entrypoint, spec.port, port) ?? entrypoint, hint: null };
  }
  const same = await ports.takeExactly(spec.port);
  if (same !== null) return { port: same, entrypoint, hint: null };
  const port = await ports.take();
  const hint = `Port ${spec.port} is in use on the machine, so the app was told to listen on ${port} by the variable PORT; name the port as an argument of the entrypoint or listen on PORT.`;
  return { port, entrypoint, hint };
}

type Place = { readonly paths: ReplicaPaths; readonly context: LaunchContext };

async function prepareFolders(spec: ReplicaSpec, artifact: ProcessArtifact, { paths, context }: Place): Promise<void> {
  const user = ownerOf(spec, context.sandbox);
  const storage = storageDirOf(spec, context);
  mkdirSync(context.replicasDir, { recursive: true, mode: 0o700 });
  mkdirSync(paths.dir, { mode: 0o700 });
  for (const dir of [paths.staging, paths.overlayWork]) mkdirSync(dir);
  for (const dir of [paths.home, paths.temporary, paths.code, paths.listen]) makeOwned(dir, user);
  mkdirSync(context.socketsDir, { recursive: true, mode: 0o700 });
  if (!existsSync(storage)) makeOwned(storage, user);
  if (context.sandbox.kind === "namespaces") {
    writeEtc(paths.etc, context.sandbox, { user: user ?? 0, home: paths.home, isBuild: false });
  }
  // The builder ran as root, but the app is not root and writes beside its code.
  if (user !== null && statSync(artifact.appDir).uid !== user) {
    await runToEnd("chown", ["-R", "-h", `${user}:${user}`, artifact.appDir], context.signal);
  }
  if (usesOverlay(artifact, context)) return;
  const reflink = process.platform === "linux" ? ["--reflink=auto"] : [];
  await runToEnd("cp", ["-a", ...reflink, `${artifact.appDir}/.`, paths.code], context.signal);
}

function makeOwned(dir: string, user: number | null): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  if (user !== null) chownSync(dir, user, user);
}

function storageDirOf({ storage }: ReplicaSpec, { storageDir }: LaunchContext): string {
  return join(storageDir, storage);
}

/** Null when apps run as the platform's own user. */
function ownerOf(spec: ReplicaSpec, sandbox: Sandbox): number | null {
  return sandbox.kind === "namespaces" && !sandbox.isUserOwned ? projectUser(spec.projectId) : null;
}

function usesOverlay(artifact: ProcessArtifact, { sandbox, replicasDir }: LaunchContext): boolean {
  return sandbox.kind === "namespaces" && sandbox.hasOverlays && canOverlay(artifact.appDir) && canOverlay(replicasDir);
}

async function spawnReplica(
  spec: ReplicaSpec,
  artifact: ProcessArtifact,
  { paths, context, choice, cgroup }: Place & { readonly choice: AddressChoice; readonly cgroup: Cgroup },
): Promise<ChildProcess> {
  const isSandboxed = context.sandbox.kind === "namespaces";
  const outputs = spec.runtime === "cortex" ? 3 : 2;
  const descriptor = choice.network?.descriptor;
  const program =
    spec.runtime === "cortex" ? [artifact.python, join(context.runtimeDir, "start.py")] : choice.entrypoint;
  const places = {
    homeDir: paths.home,
    temporaryDir: isSandboxed ? "/tmp" : paths.temporary,
    storageDir: isSandboxed ? storagePath : storageDirOf(spec, context),
    venvDir: artifact.venvDir,
    python: artifact.python,
    takesRootPath: artifact.takesRootPath,
  };
  const confined = sandboxed(context.sandbox, {
    command: program as [string, ...string[]],
    cwd: isSandboxed ? codeAlias : paths.code,
    environment: appEnvironment(spec, places, {
      port: choice.port,
      host: choice.network === null ? choice.host : "0.0.0.0",
      socket: isSandboxed && choice.socket !== null ? `${listenPath}/${listenName}` : choice.socket,
    }),
    view: viewOf(spec, artifact, { paths, context }),
    user: projectUser(spec.projectId),
    network: choice.network?.setup ?? null,
    networkDescriptor: descriptor === undefined ? undefined : outputs + 1,
    around,
  });
  const { file, args, environment } = entering(cgroup, confined);
  const user = ownerOf(spec, context.sandbox);
  const opened = [paths.stdout, paths.stderr, paths.ready].map((path) => openOutput(path, user));
  try {
    const child = spawn(file, args, {
      cwd: paths.dir,
      env: environment,
      detached: true,
      stdio: ["ignore", ...opened.slice(0, outputs), ...(descriptor === undefined ? [] : [descriptor])],
    });
    child.unref();
    await once(child, "spawn");
    return child;
  } catch (error) {
    // Only the code (E2BIG, EAGAIN, …) matters, and the message contains the arguments.
    const { code } = error as NodeJS.ErrnoException;
    const known =
      code === "E2BIG" ? "its variables are too large for one process" : `the machine refused (${code ?? "unknown"})`;
    throw new StartRefused(`The replica could not be started: ${known}.`);
  } finally {
    for (const output of opened) closeSync(output);
  }
}

/** The app may open /dev/stdout again, so its user owns the files. */
function openOutput(path: string, user: number | null): number {
  const descriptor = openSync(path, "a", 0o600);
  if (user !== null) chownSync(path, user, user);
  return descriptor;
}

function memoryBytesOf({ memoryGb }: ReplicaSpec): number {
  return Math.round(memoryGb * 1e9);
}

function viewOf(spec: ReplicaSpec, artifact: ProcessArtifact, { paths, context }: Place): SandboxView {
  const { appDir, python, venvDir } = artifact;
  const isOverlaid = usesOverlay(artifact, context);
  const placed = [
    { from: storageDirOf(spec, context), at: storagePath },
    { from: paths.listen, at: listenPath },
  ];
  return {
    stagingDir: paths.staging,
    readOnly: [
      ...interpreterFolders(python, [homedir(), context.dataDir]),
      ...(venvDir === null ? [] : [venvDir]),
      ...(spec.runtime === "cortex" ? [context.runtimeDir] : []),
    ].filter((path, index, all) => all.indexOf(path) === index),
    writable: [paths.home],
    temporaryDir: paths.temporary,
    sharedMemoryBytes: memoryBytesOf(spec),
    overlays: isOverlaid ? [{ lower: appDir, upper: paths.code, work: paths.overlayWork }] : [],
    placed: isOverlaid ? placed : [...placed, { from: paths.code, at: appDir }],
    etcDir: paths.etc,
    aliases: [{ of: appDir, at: codeAlias }],
    hidden: [context.dataDir],
  };
}

/**
 * Other work of the replica's shell: it claims the start (see `giveUpStart`), sends errors of the sandbox to `state` instead of
 * the app's output, and reports when the app runs and how it exited. It opens the files that the platform reads a second time, so
 * that no process can take a lease on one (fcntl(2)), which would block the platform for 45 seconds.
 */
const around = {
  before: `exec 4>>state 6>>stdout 7>>stderr 8>>ready || exit ${sandboxFailedCode}
{ read -r stat </proc/self/stat; } 2>/dev/null || stat=$$
set -C
{ echo "$stat" >pid; } 2>/dev/null || exit ${sandboxFailedCode}
set +C
exec 5>&2 2>&4
trap : TERM`,
  ready: "echo running >&4",
  after: 'echo "exit $?" >&4',
};
