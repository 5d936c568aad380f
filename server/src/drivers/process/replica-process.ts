// One running or exited replica on this machine. The driver polls it: a turn reads the state from
// its shell, its runtime and the process table, and emits new events; its output is delivered
// meanwhile. A change in its folder nudges a turn, so it does not matter whether this process of
// the platform started it.
import type { ChildProcess } from "node:child_process";
import { watch, type FSWatcher } from "node:fs";
import type { Address, OwnedReplica, ReplicaEvent, ReplicaSink } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import { waitUpTo } from "#lib/with-deadline.ts";
import { beginOfAppFile } from "./app-file.ts";
import { removeGroup } from "./cgroup.ts";
import { commandProblem } from "#drivers/command-problem.ts";
import { exitSummary } from "#drivers/exit-reason.ts";
import { memoryFacts } from "./memory-facts.ts";
import { Leftovers } from "./leftovers.ts";
import { bootId, firstChild, isAlive, memoryKills, ranMs, signal } from "./process-table.ts";
import { writeIfFits } from "#drivers/json-file.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import * as files from "./replica-files.ts";
import { addressOf, markerOf, socketError, whyUnreached } from "./replica-listens.ts";
import { ReplicaLog } from "./replica-log.ts";

export type ReplicaProcessOptions = {
  readonly paths: files.ReplicaPaths;
  readonly record: files.ReplicaRecord;
  readonly sink: ReplicaSink;
  readonly clock: Clock;
  /** Set only for this process's own children. */
  readonly child: ChildProcess | null;
  /** Called once, when it is gone. */
  readonly onEnded: () => void;
  /** A check failed (a full disk, for example); another one follows. */
  readonly onFault: (error: unknown) => void;
};

/**
 * Interval without changes of the folder: some file systems report none, and neither does a killed
 * shell.
 */
export const lookEveryMs = 1000;
/** While a change is expected soon. */
const lookSoonMs = 5;
/** While what an app left is ending: each time all processes are looked through. */
const askedLookMs = 50;
/** Minimum time between two checks because of changes in the folder. */
const nudgeMs = 10;
const closeWaitMs = 10_000;
const watchedFiles = new Set(["stdout", "stderr", "state", "ready"]);

/** One replica. Starts watching with `watch()`. */
export class ReplicaProcess {
  readonly #options: ReplicaProcessOptions;
  readonly #established = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #memoryKillsBefore = memoryKills();
  #log: ReplicaLog | null = null;
  /** The delivery of its output after its end. */
  #rest: Promise<boolean> | null = null;
  #watcher: FSWatcher | null = null;
  #turn: Promise<void> | null = null;
  #isNudged = false;
  #isClosed = false;
  #cancelSoon: (() => void) | undefined;
  #cancelNudge: (() => void) | undefined;
  #lastNudgeMs = Number.NEGATIVE_INFINITY;
  #isChildGone = false;
  #identity: files.ProcessIdentity | null = null;
  #isRunning = false;
  #address: Address | null = null;
  /** No further report of the runtime follows. */
  #isReported = false;
  #startError: string | null = null;
  #failure: string | null = null;
  #ended: files.EndedRecord | null;
  #asked: "not" | "stopped" | "killed" = "not";
  /** Why the platform killed it when no caller asked for that. */
  #endReason: string | null = null;
  #isTerminated = false;
  #isKilled = false;
  /** True when this process of the platform has seen it alive. */
  #wasAlive = false;
  #leftovers: Leftovers | null = null;
  #cancelKill: (() => void) | undefined;
  #killAtMs = Number.POSITIVE_INFINITY;

  constructor(options: ReplicaProcessOptions) {
    this.#options = options;
    this.#ended = files.readEnded(options.paths);
    this.#established.promise.catch(() => undefined);
    const { child } = options;
    this.#isChildGone = child !== null && (child.exitCode !== null || child.signalCode !== null);
    child?.once("exit", () => {
      this.#isChildGone = true;
      this.look();
    });
  }

  get record(): files.ReplicaRecord {
    return this.#options.record;
  }

  get isEnded(): boolean {
    return this.#ended !== null;
  }

  /** Resolves when the app's process runs; rejects with the reason when it never will. */
  get established(): Promise<void> {
    return this.#established.promise;
  }

  /** The replica's known state, without a check. */
  owned(): OwnedReplica {
    const { replicaId, appId, releaseId } = this.#options.record;
    const state = this.#ended === null ? "running" : "exited";
    const reason = this.#ended?.reason ?? null;
    const unseen =
      this.#options.child === null && !this.#wasAlive ? { isUnseen: true as const } : {};
    const ran =
      this.#identity === null || state === "exited"
        ? undefined
        : ranMs(this.#identity, this.#options.record);
    const time = ran === undefined ? {} : { ranMs: ran };
    return {
      replicaId,
      appId,
      releaseId,
      state,
      address: this.#address,
      reason,
      ...unseen,
      ...time,
    };
  }

  /** Starts checking. Accepts the current state of an adopted replica without emitting events. */
  async watch(): Promise<void> {
    if (this.#ended !== null) return this.#gone.resolve();
    const { paths } = this.#options;
    this.#log = await this.#openLog();
    if (this.#options.child === null) this.#takeIn(() => undefined);
    try {
      this.#watcher = watch(paths.dir, (_change, name) => {
        if (name === null || watchedFiles.has(name)) this.#nudged();
      });
      this.#watcher.on("error", () => this.#watcher?.close());
    } catch {
      // Out of watches (fs.inotify.max_user_watches): rely on the periodic checks.
    }
    this.look();
  }

  #openLog(): Promise<ReplicaLog> {
    const { paths, record, sink, clock, onFault } = this.#options;
    const { replicaId, runtime } = record;
    const lines: ReplicaSink["lines"] = (given) => sink.lines(given);
    return ReplicaLog.open({
      replicaId,
      paths,
      hasFrames: runtime === "cortex",
      lines,
      clock,
      onFault,
    });
  }

  /** Resolves when all output of an exited replica is delivered; false: it was closed before. */
  async deliver(): Promise<boolean> {
    this.#log ??= await this.#openLog();
    this.#rest ??= this.#log.end();
    return await this.#rest;
  }

  /** Do not check after every byte of an app that writes byte by byte. */
  #nudged(): void {
    const { clock } = this.#options;
    if (this.#cancelNudge !== undefined) return;
    const waitMs = this.#lastNudgeMs + nudgeMs - clock.monotonicMs();
    const look = (): void => {
      this.#cancelNudge = undefined;
      this.#lastNudgeMs = clock.monotonicMs();
      this.look();
    };
    if (waitMs <= 0) look();
    else this.#cancelNudge = clock.after(waitMs, look);
  }

  /** Checks now. Turns never overlap; a nudge during one causes one more. */
  look(): void {
    if (this.#log === null || this.#isClosed || this.#ended !== null) return;
    this.#isNudged = true;
    this.#turn ??= this.#turns()
      .catch((error: unknown) => this.#options.onFault(error))
      .finally(() => (this.#turn = null));
    this.#log.look();
  }

  /** Asks it to stop and kills it `graceMs` later; resolves when it is gone. */
  async stop(graceMs: number): Promise<void> {
    if (this.#ended !== null) return;
    const { clock } = this.#options;
    const killAtMs = clock.monotonicMs() + graceMs;
    if (this.#asked === "not") this.#asked = "stopped";
    if (killAtMs < this.#killAtMs) {
      this.#killAtMs = killAtMs;
      this.#cancelKill?.();
      this.#cancelKill = clock.after(graceMs, () => this.kill());
    }
    this.look();
    await this.#gone.promise;
  }

  /** Kills it. */
  kill(): void {
    if (this.#ended !== null) return;
    this.#asked = this.#asked === "not" ? "stopped" : "killed";
    this.#killNow();
    this.look();
  }

  /** Kills it for this reason. */
  endFor(reason: string): void {
    if (this.#ended !== null) return;
    this.#endReason ??= reason;
    this.#killNow();
    this.look();
  }

  /** The id of the replica's first process; null until that has started. */
  get pid(): number | null {
    return this.#identity?.pid ?? null;
  }

  /** See `Driver`. */
  whyUnreached(): Promise<string | null> {
    return Promise.resolve(whyUnreached(this.#options.paths, this.#options.record));
  }

  /** Removes its files, once it has exited. */
  async remove(): Promise<void> {
    const { paths, record } = this.#options;
    removeGroup(record.cgroup ?? []);
    await files.removeReplica(paths);
  }

  /** Stops checking; the replica keeps running. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watcher?.close();
    this.#cancelSoon?.();
    this.#cancelNudge?.();
    this.#cancelKill?.();
    // A sink that never answers must not block the platform.
    await waitUpTo(
      this.#options.clock,
      closeWaitMs,
      Promise.all([this.#turn, this.#log?.stop(), this.#rest]),
    );
    await this.#log?.close();
    this.#established.reject(new Error("the driver was closed"));
  }

  async #turns(): Promise<void> {
    while (this.#isNudged && !this.#isClosed && this.#ended === null) {
      this.#isNudged = false;
      await this.#look();
    }
  }

  async #look(): Promise<void> {
    const log = this.#log;
    if (log === null) return;
    const isGone = this.#isProcessGone();
    this.#takeIn((event) => this.#options.sink.event(event));
    if (isGone && !this.#isRunning) this.#fail();
    if (this.#asked === "stopped" && !isGone) this.#terminate();
    if (isGone && this.#areLeftoversGone()) await this.#end(log);
  }

  /** Reads the reports of the shell and the runtime. */
  #takeIn(tell: (event: ReplicaEvent) => void): void {
    const { paths, record, clock } = this.#options;
    if (!this.#isRunning && files.readState(paths).isRunning) {
      this.#isRunning = true;
      this.#established.resolve();
    }
    if (!this.#isRunning) return;
    const port = this.#readReport();
    if (this.#address !== null) return;
    this.#address = addressOf(paths, record, port);
    if (this.#address === null) return;
    const { replicaId, hint } = record;
    tell({ kind: "started", replicaId, at: clock.now(), address: this.#address, hint });
  }

  /** Reads the cortex runtime's report of its start; returns the port in it. */
  #readReport(): number | undefined {
    const { paths, record } = this.#options;
    if (this.#isReported || record.runtime !== "cortex") return undefined;
    const report = files.readReport(paths);
    this.#startError =
      report.error ?? (report.port === undefined ? null : socketError(paths, record));
    this.#isReported = report.isLast || this.#startError !== null;
    return report.port;
  }

  /** True when none of its processes runs any more, except what an unsandboxed app left behind. */
  #isProcessGone(): boolean {
    this.#identity ??= files.readPid(this.#options.paths);
    if (this.#options.child !== null) return this.#isChildGone && !this.#doesShellOutliveChild();
    if (this.#options.record.bootId !== bootId) return true;
    if (this.#identity === null || !isAlive(this.#identity)) return true;
    this.#wasAlive = true;
    // There is no event for the exit of a process that is not our child.
    if (this.#isKilled || files.readState(this.#options.paths).exitCode !== null) this.#lookSoon();
    return false;
  }

  /**
   * Only once: the signal goes to the app itself, its shell's only child. The shell is told first,
   * and then asks what is left.
   */
  #terminate(): void {
    if (this.#isTerminated) return;
    // The app has not started yet.
    if (!this.#isRunning || this.#identity === null) return this.#killNow();
    const app = firstChild(this.#identity.pid);
    if (app !== null)
      this.#isTerminated = signal(this.#identity.pid, "SIGTERM") && signal(app, "SIGTERM");
    else if (this.#identity.startTicks === null)
      this.#isTerminated = signal(-this.#identity.group, "SIGTERM");
    else this.#lookSoon();
  }

  /**
   * The shell is the first process of its namespace: when it dies, the kernel kills everything in
   * there.
   */
  #killNow(): void {
    this.#isKilled = true;
    this.#identity ??= files.readPid(this.#options.paths);
    const { child } = this.#options;
    if (this.#identity !== null && isAlive(this.#identity)) {
      signal(this.#identity.pid, "SIGKILL");
      signal(-this.#identity.group, "SIGKILL");
    } else if (child?.pid !== undefined && !this.#isChildGone) {
      signal(-child.pid, "SIGKILL");
    }
  }

  /**
   * Our child then set up the sandbox; its shell is the first process of the sandbox, and exits
   * after all others. It dies soon after our child, not at the same moment.
   */
  #doesShellOutliveChild(): boolean {
    if (!this.#options.record.isSandboxed || this.#identity === null || !isAlive(this.#identity))
      return false;
    signal(this.#identity.pid, "SIGKILL");
    this.#lookSoon();
    return true;
  }

  /**
   * Kills processes without their shell. A sandbox leaves none, unless it was killed before its
   * shell started.
   */
  #areLeftoversGone(): boolean {
    const { child, record, clock, onFault } = this.#options;
    if (record.bootId !== bootId || (record.isSandboxed && this.#identity !== null)) return true;
    this.#leftovers ??= new Leftovers({
      marker: markerOf(record.replicaId),
      group: child?.pid ?? null,
      sinceTicks: this.#identity?.startTicks ?? null,
    });
    if (this.#asked === "stopped" && this.#leftovers.ask()) {
      this.#lookSoon(askedLookMs);
      return false;
    }
    const found = this.#leftovers.sweep(clock.monotonicMs());
    if (found === "again") this.#lookSoon();
    if (found === "lost")
      onFault(
        new Error("the replica starts processes faster than they can be killed; some are left"),
      );
    return found !== "again";
  }

  #lookSoon(waitMs = lookSoonMs): void {
    this.#cancelSoon?.();
    this.#cancelSoon = this.#options.clock.after(waitMs, () => this.look());
  }

  /** It exited before the app started. */
  #fail(): void {
    const { complaints } = files.readState(this.#options.paths);
    this.#failure =
      this.#asked === "not" ? complaints || "its first process ended" : "it was stopped meanwhile";
    this.#established.reject(new Error(this.#failure));
  }

  /**
   * Null when it exited unobserved and without a report of its shell, for example with the machine.
   */
  #exitedAt(): number | null {
    const { paths, child, clock } = this.#options;
    const said = files.readExitTime(paths);
    if (said !== null) return Math.min(said, clock.now());
    return child !== null || this.#wasAlive ? clock.now() : null;
  }

  async #end(log: ReplicaLog): Promise<void> {
    const { paths, record, sink } = this.#options;
    this.#cancelKill?.();
    this.#cancelSoon?.();
    this.#watcher?.close();
    // Its own files may use the disk space that the rest needs.
    if (this.#endReason !== null)
      for (const dir of files.writtenFolders(paths)) await removeFolder(dir);
    const { exitCode } = files.readState(paths);
    const { program, appDir = paths.code } = record;
    const lastLine = await log.lastErrorLine();
    const readBegin = (path: string, bytesMax: number): Promise<Buffer | null> =>
      beginOfAppFile([paths.code, appDir], path, bytesMax);
    const summary = exitSummary({
      exitCode,
      startError: this.#startError,
      lastErrorLine: lastLine,
      asked: this.#asked,
      endReason: this.#endReason,
      ...memoryFacts(record, this.#memoryKillsBefore),
      program,
      commandProblem: await commandProblem({
        exitCode,
        program,
        lastErrorLine: lastLine?.text ?? null,
        readBegin,
      }),
    });
    const isTold = this.#failure === null || this.#options.child === null;
    this.#ended =
      this.#failure === null
        ? summary
        : { ...summary, reason: `The replica could not be started: ${this.#failure}.` };
    // Without it a later process of the platform works out again how it exited.
    writeIfFits(paths.ended, this.#ended);
    if (isTold)
      sink.event({
        kind: "exited",
        replicaId: record.replicaId,
        at: this.#exitedAt(),
        ...this.#ended,
      });
    removeGroup(record.cgroup ?? []);
    this.#options.onEnded();
    this.#gone.resolve();
    this.#rest = log.end();
    this.#rest.catch(this.#options.onFault);
  }
}
