// One zygote: a process in a sandbox of its own that has imported an app, and forks for each
// replica. It is launched like a replica, and then waits. Its sandbox lasts until the last of its
// replicas has ended, since their processes are in its process namespace, too.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { ReplicaSpec, ZygoteReport } from "#drivers/driver.ts";
import { readJson, writeWhole } from "#drivers/json-file.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import { sinceBootMs, type Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { confineScript, machinePython, type Attachers } from "./attachers.ts";
import { enter, enterLines, makeGroup, niceWords, removeGroup, type Cgroup } from "./cgroup.ts";
import { isOwnVariable, zygoteSocket, zygoteSocketName, type ForkSource } from "./fork-launch.ts";
import { claimStart, tasksMax, type Launched } from "./launch.ts";
import { limitEgressInside } from "./network.ts";
import { bootId, firstChild, identityOf, isAlive, signal } from "./process-table.ts";
import {
  readState,
  replicaPaths,
  type ProcessIdentity,
  type ReplicaRecord,
} from "./replica-files.ts";
import { loopback } from "./replica-listens.ts";
import { ReplicaLooks } from "./replica-looks.ts";
import {
  checkedArtifact,
  listenPath,
  memoryBytesOf,
  prepareFolders,
  programOf,
  readyFd,
  refuseVariables,
  type LaunchContext,
} from "./replica-program.ts";
import { ReplicaShell } from "./replica-shell.ts";
import * as sandboxes from "./sandbox.ts";
import { viewPath } from "./sandbox-view.ts";
import { memoryOf } from "./usage.ts";
import { readZygoteReport } from "./zygote-report.ts";

/** The machine's resources for a zygote; its sandbox has overlays. */
export type ZygoteContext = LaunchContext & { readonly sandbox: sandboxes.Namespaces };

/** `child`: null when an earlier process of the platform has made the zygote. */
export type ZygoteOptions = Omit<Launched, "child"> & {
  readonly child: Launched["child"] | null;
  readonly sandbox: sandboxes.Namespaces;
  readonly attachers: Attachers;
  readonly clock: Clock;
  readonly onFault: (error: unknown) => void;
};

/**
 * Processes that are made before the program, so that its id differs from the ids in the sandboxes
 * of its replicas: libraries notice by a changed id that they run in a forked process.
 */
const idsSkipped = 30;
/** How long a zygote may take to end by itself. */
const endWaitMs = 10_000;

/** One zygote, from its launch until its folder is removed. */
export class Zygote {
  readonly id: ReplicaId;
  readonly #options: ZygoteOptions;
  readonly #shell: ReplicaShell;
  readonly #looks: ReplicaLooks;
  readonly #report = Promise.withResolvers<ZygoteReport>();
  readonly #gone = Promise.withResolvers<void>();
  #source: ForkSource | null = null;
  /** The process that has imported the app; null until it is ready. */
  #app: ProcessIdentity | null = null;
  #isReported = false;

  constructor(options: ZygoteOptions) {
    const { paths, record, child, clock, onFault } = options;
    this.id = record.replicaId;
    this.#options = options;
    this.#looks = new ReplicaLooks({ dir: paths.dir, clock, turn: () => this.#turn(), onFault });
    this.#shell = new ReplicaShell({ paths, record, clock, child, looks: this.#looks, onFault });
    this.#looks.start();
  }

  /** Resolves with what the zygote reports after the import, or with how it ended before. */
  get report(): Promise<ZygoteReport> {
    return this.#report.promise;
  }

  /** Resolves when the zygote and all replicas that it forked have ended. */
  get gone(): Promise<void> {
    return this.#gone.promise;
  }

  /** From where replicas can be started; null: it is not ready, or ends. */
  get source(): ForkSource | null {
    return this.#source;
  }

  /** The id of its sandbox's first process; null until that has started. */
  get pid(): number | null {
    return this.#shell.pid;
  }

  /** The memory of the zygote alone, in bytes; null when unknown. */
  memoryBytes(): number | null {
    return this.#app === null ? null : memoryOf(this.#app.pid);
  }

  /** Looks at the zygote once; see `lookEveryMs`. */
  look(): void {
    this.#looks.look();
  }

  /** Asks it to end, and kills it if it does not. Replicas that were forked from it go on. */
  end(): void {
    this.#source = null;
    const app = this.#app ?? this.#readApp();
    // Nothing was forked before it was ready.
    if (app === null) return this.#shell.kill();
    this.#signal(app, "SIGTERM");
    this.#options.clock.after(endWaitMs, () => this.#signal(app, "SIGKILL"));
  }

  /** Kills it, and all replicas that it has forked. */
  kill(): void {
    this.#source = null;
    this.#shell.kill();
  }

  /** Stops watching. */
  async close(): Promise<void> {
    this.#looks.stop();
    await this.#looks.settled();
  }

  async remove(): Promise<void> {
    const { paths, record } = this.#options;
    await this.close();
    removeGroup(record.cgroup ?? []);
    await removeFolder(paths.dir);
  }

  async #turn(): Promise<void> {
    const { paths } = this.#options;
    const report = this.#isReported ? null : readZygoteReport(paths.ready);
    const isGone = this.#shell.isGone();
    if (report !== null) {
      this.#isReported = true;
      this.#report.resolve(report.kind === "ready" && !isGone ? this.#becomeReady() : report);
    }
    if (!isGone) return;
    this.#source = null;
    const { complaints, exitCode } = readState(paths);
    const how = complaints === "" ? `it ended with code ${exitCode ?? "unknown"}` : complaints;
    this.#report.resolve({ kind: "failed", reason: how });
    this.#gone.resolve();
  }

  /** Notes what the import has written, which replicas must find; returns what is reported. */
  #becomeReady(): ZygoteReport {
    const { paths, sandbox, attachers } = this.#options;
    const [written] = readdirSync(paths.code);
    // An overlay may not lie over files that another overlay writes to.
    if (written !== undefined) return { kind: "refused", reasons: [wroteBesideCode(written)] };
    const pid = this.#shell.pid === null ? null : firstChild(this.#shell.pid);
    const app = pid === null ? null : identityOf(pid);
    if (app === null) return { kind: "failed", reason: "it ended after the import" };
    writeWhole(join(paths.dir, appFile), app);
    this.#app = app;
    const home = isEmpty(paths.home) ? null : paths.home;
    const temporary = isEmpty(paths.temporary) ? null : paths.temporary;
    const imported = { home, temporary };
    this.#source = { id: this.id, sandbox, attachers, socket: zygoteSocket(paths), imported };
    return { kind: "ready" };
  }

  /** The process that has imported the app, as an earlier process of the platform noted it. */
  #readApp(): ProcessIdentity | null {
    const { paths, record } = this.#options;
    if (record.bootId !== bootId) return null;
    return readJson(join(paths.dir, appFile)) as ProcessIdentity | null;
  }

  #signal(app: ProcessIdentity, name: NodeJS.Signals): void {
    if (isAlive(app)) signal(app.pid, name);
  }
}

/** The file with the identity of the process that has imported the app. */
const appFile = "app.json";

function wroteBesideCode(name: string): string {
  return `importing main.py wrote ${JSON.stringify(name.slice(0, 100))} into the app's folder: write it to /tmp, or later`;
}

function isEmpty(folder: string): boolean {
  return readdirSync(folder).length === 0;
}

/** Launches a zygote for the replicas of `spec`, whose id it gets. Rejects as `launch` does. */
export async function launchZygote(spec: ReplicaSpec, context: ZygoteContext): Promise<Launched> {
  const artifact = checkedArtifact(spec);
  refuseVariables(spec);
  const { replicaId, appId, releaseId, projectId, runtime, memoryGb, egressCidrs } = spec;
  const paths = replicaPaths(join(context.replicasDir, replicaId));
  const choice = { isCortex: true, port: null, socket: "", entrypoint: [], hint: null };
  let cgroup: Cgroup = [];
  let shell: ReturnType<LaunchContext["shells"]["take"]> | undefined;
  try {
    const run = programOf(spec, artifact, { paths, context, choice });
    const memoryBytes = memoryBytesOf(spec);
    cgroup = makeGroup(context.cgroups.parents, replicaId, {
      memoryBytes,
      cpuCores: spec.cpuCores,
      tasksMax,
      // The shell in it holds the sandboxes of all replicas.
      endsTogether: false,
    });
    await prepareFolders(spec, artifact, { paths, context });
    shell = context.shells.take(paths.state);
    const record: ReplicaRecord = {
      version: 1,
      replicaId,
      appId,
      releaseId,
      projectId,
      runtime,
      host: shell.address?.address ?? loopback,
      port: null,
      socket: null,
      hint: null,
      program: artifact.python,
      appDir: artifact.appDir,
      isSandboxed: true,
      bootId,
      cgroup,
      memoryGb,
      startedBootMs: sinceBootMs(),
    };
    writeWhole(paths.record, record);
    const zygoteRun = { ...run, environment: zygoteVariables(run.environment) };
    shell.child.stdin.end(
      zygoteScript(zygoteRun, { context, dir: paths.dir, cgroup, replicaId, egressCidrs }),
    );
    await enter(cgroup, shell.child.pid ?? 0);
    return { child: shell.child, paths, record };
  } catch (error) {
    if (shell !== undefined) await context.shells.end(shell);
    removeGroup(cgroup);
    await removeFolder(paths.dir);
    throw error;
  }
}

/** The variables of all replicas, and what makes the runtime a zygote. */
function zygoteVariables(
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const shared = Object.entries(environment).filter(([name]) => !isOwnVariable(name));
  return {
    ...Object.fromEntries(shared),
    SLIPWAY_READY_FD: String(readyFd),
    SLIPWAY_ZYGOTE: `${listenPath}/${zygoteSocketName}`,
  };
}

type ZygoteScriptParts = Pick<ReplicaSpec, "replicaId" | "egressCidrs"> & {
  readonly context: ZygoteContext;
  readonly dir: string;
  readonly cgroup: Cgroup;
};

/** The script that the zygote's shell executes; `scriptOf` has that of a replica. */
function zygoteScript(run: sandboxes.SandboxedRun, parts: ZygoteScriptParts): string {
  const { context, dir, cgroup, replicaId, egressCidrs } = parts;
  const network = sandboxes.ownNetwork(context.sandbox);
  const isLimited = network !== null && egressCidrs !== null;
  const limits = isLimited
    ? limitEgressInside(network, egressCidrs, sandboxes.sandboxFailedCode)
    : "";
  return sandboxes.runScript(context.sandbox, run, {
    before: `cd ${shellQuoted(dir)} || exit ${sandboxes.sandboxFailedCode}\n${claimStart}\n${enterLines(cgroup)}${limits}`,
    entry: replicaId,
    ready: `i=0; while [ $i -lt ${idsSkipped} ]; do (:); i=$((i+1)); done\necho running >&4`,
    words: niceWords(cgroup),
    drop: `${machinePython} -I -S -c ${shellQuoted(confineScript())} ${run.user} ${viewPath} `,
    redirections: "<&9 9<&- 2>&5 4>&- 5>&- 6>&- 7>&- 8>&-",
    // The sandbox ends with this shell, so it waits for the replicas, whose processes are in it.
    after: 'code=$?; while kill -0 -1 2>&-; do sleep 1; done; echo "exit $code" >&4',
  });
}
