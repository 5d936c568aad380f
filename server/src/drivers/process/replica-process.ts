// One running or exited replica on this machine. Each turn finds out the replica's state from its
// folder and the machine's processes, emits events, and delivers output. It does not matter whether
// this process of the platform started the replica.
import type { ChildProcess } from "node:child_process";
import type { OwnedReplica, ReplicaEvent, ReplicaSink } from "#drivers/driver.ts";
import { writeIfFits } from "#drivers/json-file.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Clock } from "#lib/clock.ts";
import { waitUpTo } from "#lib/with-deadline.ts";
import { removeGroup } from "./cgroup.ts";
import { memoryKills } from "./process-table.ts";
import { exitTime, summaryOfExit } from "./replica-exit.ts";
import * as files from "./replica-files.ts";
import { whyUnreached } from "./replica-listens.ts";
import { ReplicaLog } from "./replica-log.ts";
import { ReplicaLooks } from "./replica-looks.ts";
import { ReplicaShell } from "./replica-shell.ts";
import { ReplicaStart } from "./replica-start.ts";

export type ReplicaProcessOptions = {
  readonly paths: files.ReplicaPaths;
  readonly record: files.ReplicaRecord;
  readonly sink: ReplicaSink;
  readonly clock: Clock;
  /** The child process, when this process of the platform has started the replica. */
  readonly child: ChildProcess | null;
  /** Called once, when the replica is gone. */
  readonly onEnded: () => void;
  /** Called when a check has failed (because of a full disk, for example); another one follows. */
  readonly onFault: (error: unknown) => void;
};

/** How long `close` waits for a check and for the delivery of output. */
const closeWaitMs = 10_000;

/** One replica. Starts watching with `watch()`. */
export class ReplicaProcess {
  readonly #options: ReplicaProcessOptions;
  readonly #looks: ReplicaLooks;
  readonly #shell: ReplicaShell;
  readonly #start: ReplicaStart;
  readonly #established = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  /** The count of memory kills of the machine when this process first saw the replica. */
  readonly #memoryKillsBefore = memoryKills();
  #log: ReplicaLog | null = null;
  /** The delivery of the remaining output after the replica's end. */
  #lastDelivery: Promise<boolean> | null = null;
  /** Why the replica could not be started; null: its app has started, or may still start. */
  #failure: string | null = null;
  /** How the replica exited; null until it is gone. */
  #ended: files.EndedRecord | null;
  /** Whether somebody requested the end; `killed`: the replica did not end in time afterwards. */
  #endRequest: "not" | "stopped" | "killed" = "not";
  /** Why the platform killed the replica without a request of a caller; null: it did not. */
  #endReason: string | null = null;
  /** Cancels the timer that kills the replica at `#killAtMs`. */
  #cancelKill: (() => void) | undefined;
  #killAtMs = Number.POSITIVE_INFINITY;

  constructor(options: ReplicaProcessOptions) {
    const { paths, record, clock, child, onFault } = options;
    this.#options = options;
    this.#ended = files.readEnded(paths);
    // It may be that nobody waits for this promise when it is rejected, which is no error.
    this.#established.promise.catch(() => undefined);
    this.#looks = new ReplicaLooks({ dir: paths.dir, clock, turn: () => this.#turn(), onFault });
    this.#shell = new ReplicaShell({ paths, record, clock, child, looks: this.#looks, onFault });
    this.#start = new ReplicaStart(paths, record);
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

  /** The id of the replica's first process; null until that has started. */
  get pid(): number | null {
    return this.#shell.pid;
  }

  /** The replica's known state, without a check. */
  owned(): OwnedReplica {
    const { replicaId, appId, releaseId } = this.#options.record;
    const isEnded = this.#ended !== null;
    const unseen = this.#shell.wasSeen ? {} : { isUnseen: true as const };
    const ranMs = isEnded ? undefined : this.#shell.ranMs();
    const time = ranMs === undefined ? {} : { ranMs };
    return {
      replicaId,
      appId,
      releaseId,
      state: isEnded ? "exited" : "running",
      address: this.#start.address,
      reason: this.#ended?.reason ?? null,
      ...unseen,
      ...time,
    };
  }

  /** Starts checking. Accepts the current state of an adopted replica without emitting events. */
  async watch(): Promise<void> {
    if (this.#ended !== null) return this.#gone.resolve();
    this.#log = await this.#openLog();
    if (this.#options.child === null) this.#readStart(() => undefined);
    this.#looks.start();
  }

  #openLog(): Promise<ReplicaLog> {
    const { paths, record, sink, clock, onFault } = this.#options;
    const { replicaId, runtime } = record;
    const lines: ReplicaSink["lines"] = (delivered) => sink.lines(delivered);
    return ReplicaLog.open({
      replicaId,
      paths,
      hasFrames: runtime === "cortex",
      lines,
      clock,
      onFault,
    });
  }

  /** Checks at once whether the replica still runs. */
  look(): void {
    this.#looks.look();
  }

  /** Asks the replica to stop, and kills it `graceMs` later; resolves when it is gone. */
  async stop(graceMs: number): Promise<void> {
    if (this.#ended !== null) return;
    const { clock } = this.#options;
    const killAtMs = clock.monotonicMs() + graceMs;
    if (this.#endRequest === "not") this.#endRequest = "stopped";
    if (killAtMs < this.#killAtMs) {
      this.#killAtMs = killAtMs;
      this.#cancelKill?.();
      this.#cancelKill = clock.after(graceMs, () => this.kill());
    }
    this.#looks.look();
    await this.#gone.promise;
  }

  /** Kills the replica on request. Without an earlier `stop`, this counts as the request to end. */
  kill(): void {
    if (this.#ended !== null) return;
    this.#endRequest = this.#endRequest === "not" ? "stopped" : "killed";
    this.#shell.kill();
    this.#looks.look();
  }

  /** Kills the replica for this reason, without a request. */
  endFor(reason: string): void {
    if (this.#ended !== null) return;
    this.#endReason ??= reason;
    this.#shell.kill();
    this.#looks.look();
  }

  /** Returns why the replica cannot be reached; see `Driver`. */
  whyUnreached(): Promise<string | null> {
    return Promise.resolve(whyUnreached(this.#options.paths, this.#options.record));
  }

  /**
   * Resolves when all output of an exited replica is delivered; false: the driver was closed before
   * that.
   */
  async deliver(): Promise<boolean> {
    this.#log ??= await this.#openLog();
    this.#lastDelivery ??= this.#log.end();
    return await this.#lastDelivery;
  }

  /** Removes the files of the exited replica. */
  async remove(): Promise<void> {
    const { paths, record } = this.#options;
    removeGroup(record.cgroup ?? []);
    await files.removeReplica(paths);
  }

  /** Stops checking; the replica keeps running. */
  async close(): Promise<void> {
    this.#looks.stop();
    this.#cancelKill?.();
    // A sink that never answers must not block the platform.
    await waitUpTo(
      this.#options.clock,
      closeWaitMs,
      Promise.all([this.#looks.settled(), this.#log?.stop(), this.#lastDelivery]),
    );
    await this.#log?.close();
    this.#established.reject(new Error("the driver was closed"));
  }

  async #turn(): Promise<void> {
    const log = this.#log;
    if (log === null) return;
    log.look();
    const isGone = this.#shell.isGone();
    this.#readStart((event) => this.#options.sink.event(event));
    if (isGone && !this.#start.isRunning) this.#fail();
    const isStopping = this.#endRequest === "stopped";
    if (isStopping && !isGone) this.#askToEnd();
    if (isGone && this.#shell.areLeftoversGone(isStopping)) await this.#end(log);
  }

  #readStart(emit: (event: ReplicaEvent) => void): void {
    const { record, clock } = this.#options;
    const { replicaId, hint } = record;
    const wasKnown = this.#start.address !== null;
    this.#start.read();
    const { isRunning, address } = this.#start;
    if (isRunning) this.#established.resolve();
    if (!wasKnown && address !== null)
      emit({ kind: "started", replicaId, at: clock.now(), address, hint });
  }

  #askToEnd(): void {
    if (this.#start.isRunning) this.#shell.askToEnd();
    else this.#shell.kill();
  }

  /** Fails the start, since the replica exited before the app started. */
  #fail(): void {
    const { complaints } = files.readState(this.#options.paths);
    const ownReason = complaints === "" ? "its first process ended" : complaints;
    this.#failure = this.#endRequest === "not" ? ownReason : "it was stopped meanwhile";
    this.#established.reject(new Error(this.#failure));
  }

  async #end(log: ReplicaLog): Promise<void> {
    const { paths, record, sink, clock, child, onEnded, onFault } = this.#options;
    this.#cancelKill?.();
    // The platform may have killed the replica because its files filled the disk. They are removed
    // at once, since the remaining output needs space.
    if (this.#endReason !== null)
      for (const dir of files.writtenFolders(paths)) await removeFolder(dir);
    const lastErrorLine = await log.lastErrorLine();
    const summary = await summaryOfExit(paths, record, {
      startError: this.#start.error,
      lastErrorLine,
      asked: this.#endRequest,
      endReason: this.#endReason,
      memoryKillsBefore: this.#memoryKillsBefore,
    });
    this.#ended =
      this.#failure === null
        ? summary
        : { ...summary, reason: `The replica could not be started: ${this.#failure}.` };
    this.#looks.stop();
    // If the disk has no space for this file, a later process of the platform works out again how
    // the replica exited.
    writeIfFits(paths.ended, this.#ended);
    // If this process started the replica, the caller of `start` learns of a failure from
    // `established`, and needs no event.
    if (this.#failure === null || child === null) {
      const at = exitTime(paths, { wasSeen: this.#shell.wasSeen, now: clock.now() });
      sink.event({ kind: "exited", replicaId: record.replicaId, at, ...this.#ended });
    }
    removeGroup(record.cgroup ?? []);
    onEnded();
    this.#gone.resolve();
    this.#lastDelivery = log.end();
    this.#lastDelivery.catch(onFault);
  }
}
