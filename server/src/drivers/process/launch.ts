// Creates a replica's folder, writes its record, and starts the app: in its sandbox, detached from
// the platform, with output to files. A failed launch leaves nothing behind.
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { StartRefused, type ReplicaSpec } from "#drivers/driver.ts";
import { writeWhole } from "#drivers/json-file.ts";
import { sinceBootMs } from "#lib/clock.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { enter, enterLines, makeGroup, niceWords, removeGroup, type Cgroup } from "./cgroup.ts";
import { keepOnLoopback, replacePort } from "./entrypoint-port.ts";
import { attachRequest, prepareFork, type ForkSource } from "./fork-launch.ts";
import { limitEgressInside, redirectToLoopback } from "./network.ts";
import type { PortPool } from "./port-pool.ts";
import { bootId } from "./process-table.ts";
import {
  removeReplica,
  replicaPaths,
  socketPath,
  type ReplicaPaths,
  type ReplicaRecord,
} from "./replica-files.ts";
import { loopback } from "./replica-listens.ts";
import {
  checkedArtifact,
  hasOwnNetwork,
  memoryBytesOf,
  prepareFolders,
  programOf,
  readyFd,
  refuseVariables,
  type AddressChoice,
  type LaunchContext,
  type LaunchParts,
} from "./replica-program.ts";
import * as sandboxes from "./sandbox.ts";
import type { Shell } from "./shell-pool.ts";

export type Launched = {
  readonly child: ChildProcess;
  readonly paths: ReplicaPaths;
  readonly record: ReplicaRecord;
};

/** Maximum number of processes and threads of one replica, to stop a fork bomb. */
export const tasksMax = 4096;

/**
 * Starts the replica. Rejects with `StartRefused`, or with another error when the machine has one,
 * such as a full disk.
 */
export async function launch(
  spec: ReplicaSpec,
  context: LaunchContext,
  zygote: ForkSource | null = null,
): Promise<Launched> {
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
    const fork = zygote === null ? null : prepareFork(paths, zygote);
    shell = fork?.attacher ?? context.shells.take(paths.state);
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
      ...(zygote === null ? {} : { zygoteId: zygote.id }),
    };
    writeWhole(paths.record, record);
    const { egressCidrs } = spec;
    const parts = { paths, context, choice, cgroup, shell, replicaId, egressCidrs };
    const { appDir } = artifact;
    shell.child.stdin.end(
      fork === null
        ? scriptOf(run, parts)
        : JSON.stringify(
            attachRequest(run, { ...parts, ...fork, appDir, memoryBytes: limits.memoryBytes }),
          ),
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

/** The port of an app in its own network, when the settings name none. */
const defaultPort = 8000;

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

/**
 * The beginning of the shell's script. It claims the start (see `giveUpStart`) by creating the file
 * `pid`, with the shell's line of /proc/self/stat, or with its process id where there is no /proc:
 * after `set -C`, the shell cannot create a file that exists already. The script then sends errors
 * of the sandbox to `state`, and keeps the app's error output as descriptor 5. It opens `stdout`,
 * `stderr` and `ready` twice: the second opening (6, 7 and 8) keeps the app from taking a lease on
 * the file (fcntl(2)), with which the app could block the platform's reads for 45 seconds.
 */
export const claimStart = `exec >>stdout 2>>stderr 3>>ready 4>>state 6>>stdout 7>>stderr 8>>ready 9</dev/null || exit ${sandboxes.sandboxFailedCode}
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
