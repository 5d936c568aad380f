// One replica in the engine. `look` asks the engine for its state and emits new events; the driver
// calls `look` when the engine reports that the container has ended or is removed, and regularly
// while the replica is being stopped. An earlier process of the platform may have created the
// container.
import { constants } from "node:os";
import { join } from "node:path";
import type Docker from "dockerode";
import type { ContainerInspectInfo } from "dockerode";
import type { DiskWatch } from "#drivers/disk/disk-watch.ts";
import type { Address, OwnedReplica, ReplicaSink } from "#drivers/driver.ts";
import { toApt } from "#drivers/error-advice.ts";
import { commandProblem } from "#drivers/command-problem.ts";
import { exitSummary, type ExitSummary } from "#drivers/exit-reason.ts";
import type { Clock } from "#lib/clock.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import { listeningSockets, listensElsewhere } from "#drivers/listening-ports.ts";
import { readText } from "#drivers/process/read-text.ts";
import { askToEnd } from "./ask-to-end.ts";
import { runInside } from "./run-inside.ts";
import type { ContainerFile } from "./container-file.ts";
import { beginOfFile } from "./container-archive.ts";
import { endExecsLeftIn } from "./container-exec.ts";
import { ContainerLog } from "./container-log.ts";
import type { ContainerRecord } from "./container-spec.ts";
import { unlessStatus, type Engine } from "./engine.ts";
import { containerRanMs } from "./first-process.ts";
import { upperFolder } from "./overlay.ts";
import type { MachineFiles } from "./own-container.ts";

export type ContainerOptions = {
  readonly containerId: string;
  readonly record: ContainerRecord;
  readonly engine: Engine;
  readonly sink: ReplicaSink;
  readonly clock: Clock;
  readonly disk: DiskWatch;
  readonly machine: MachineFiles;
  readonly file: ContainerFile;
  /**
   * True when this process of the platform created the container, and so reports its start with an
   * event. Otherwise only `list` shows that it runs.
   */
  readonly isNew: boolean;
  /** Called once, when the container is gone. */
  readonly onEnded: () => void;
  /**
   * When this process began to follow the engine's events, in ms since the epoch; infinite while it
   * does not follow them.
   */
  readonly watchedSinceMs: () => number;
  readonly onFault: (error: unknown) => void;
};

type State = ContainerInspectInfo["State"];

/** What is reported when somebody has removed the container. */
const removed: ExitSummary = {
  exitCode: null,
  signal: null,
  isExternal: true,
  reason: "The replica's container was removed from outside the platform.",
};
/** The reasons of ends that somebody else caused. */
const stopped =
  "The replica's container was stopped from outside the platform: with its engine, or by somebody who may use the engine.";
const restarted = "The replica's container was restarted from outside the platform.";
/** What the engine answers when a container does not exist (404), or does not run (409). */
const goneStatuses = [404, 409];
/**
 * How long to wait, after a container's end, for a sign that the engine caused the end: it reports
 * the signal that it sent, or breaks off its events because it ends itself.
 */
const tellingMs = 500;
/** How long the reason of a failed start command is looked for. */
const problemWaitMs = 10_000;

/** One container. */
export class Container {
  readonly #options: ContainerOptions;
  readonly #log: ContainerLog;
  /** Resolves when the container's end has been reported. */
  readonly #gone = Promise.withResolvers<void>();
  /** Settles after the last turn of `look` that has been planned. */
  #turn: Promise<void> = Promise.resolve();
  /** A turn that has not begun; null: the next call of `look` plans one. */
  #waiting: Promise<void> | null = null;
  #address: Address | null = null;
  /** Null until the container was first seen running. */
  #startedAtMs: number | null = null;
  /** The process id of its first process; null until the container was first seen running. */
  #firstPid: number | null = null;
  /** The signal that the image names for stopping. */
  #stopSignal = "SIGTERM";
  /** How the container ended; null: it has not. */
  #ended: ExitSummary | null;
  /**
   * What followed from the request to stop the container; "not": `stop` has not been called. It is
   * "killed" once the container did not end in time.
   */
  #asked: "not" | "stopped" | "killed" = "not";
  /** True when the container's processes have been asked to end, or are being asked. */
  #isStopSignalSent = false;
  /** When to kill the container, by the monotonic clock. */
  #killAtMs = Number.POSITIVE_INFINITY;
  /** Why the platform kills the container, where nobody has asked the driver to stop it. */
  #endReason: string | null = null;
  #isClosed = false;
  /** True once somebody other than the platform sent the container a signal, or restarted it. */
  #isSignalled = false;
  /** Ends the measuring of the folders that the container writes to. */
  #removeWriter: (() => void) | undefined;

  constructor(options: ContainerOptions) {
    this.#options = options;
    this.#ended = options.file.ended;
    const { record, sink } = options;
    const { replicaId, hasFrames } = record;
    this.#log = new ContainerLog({
      ...options,
      replicaId,
      hasFrames,
      lines: (lines) => sink.lines(lines),
    });
  }

  get record(): ContainerRecord {
    return this.#options.record;
  }

  get containerId(): string {
    return this.#options.containerId;
  }

  get isEnded(): boolean {
    return this.#ended !== null;
  }

  /** Whether the driver was asked to stop the container, which has not ended yet. */
  get isStopping(): boolean {
    return this.#asked !== "not" && this.#ended === null;
  }

  get #calls(): Docker.Container {
    return this.#options.engine.calls.getContainer(this.containerId);
  }

  /** The container's known state, without asking the engine. */
  owned(): OwnedReplica {
    const { replicaId, appId, releaseId } = this.record;
    const state = this.#ended === null ? "running" : "exited";
    const firstPid = state === "running" ? this.#firstPid : null;
    const ranMs = firstPid === null ? undefined : containerRanMs(firstPid, this.containerId);
    const time = ranMs === undefined ? {} : { ranMs };
    const reason = this.#ended?.reason ?? null;
    return {
      replicaId,
      appId,
      releaseId,
      state,
      ...time,
      address: this.#address,
      reason,
    };
  }

  /** Asks the engine now. Turns never overlap: all calls during a turn cause one more together. */
  look(): Promise<void> {
    this.#waiting ??= this.#turn.then(async () => {
      this.#waiting = null;
      if (this.#isClosed || this.#ended !== null) return;
      await this.#look().catch((error: unknown) => this.#options.onFault(error));
    });
    this.#turn = this.#waiting;
    return this.#waiting;
  }

  /** Accepts the current state of an adopted container without emitting events. */
  async takeIn(): Promise<void> {
    // The engine answers 404 if the container has been removed.
    const info = await unlessStatus([404], this.#calls.inspect());
    if (info?.State.Running !== true) return;
    await this.attach();
    this.#prepare(info);
    const { engine, clock } = this.#options;
    const { replicaId } = this.record;
    const execs = info.ExecIDs ?? [];
    // Not awaited: this runs programs of the image, which must not delay the platform's start.
    if (execs.length > 0)
      void endExecsLeftIn({ engine, clock, containerId: this.containerId, replicaId });
  }

  /**
   * Begins to see lines that the container has begun and not ended; misses none if called before
   * its start. An error is ignored: the next request to the engine fails as well.
   */
  async attach(): Promise<void> {
    await this.#log.attach().catch(() => undefined);
  }

  /** Asks it to stop and kills it `graceMs` later; resolves when it is gone. */
  async stop(graceMs: number): Promise<void> {
    if (this.#ended !== null) return;
    const { clock } = this.#options;
    // A second request does not undo that the container was killed.
    this.#asked = this.#asked === "not" ? "stopped" : this.#asked;
    this.#killAtMs = Math.min(this.#killAtMs, clock.monotonicMs() + graceMs);
    const cancel = clock.after(graceMs, () => void this.look());
    void this.look();
    await this.#gone.promise;
    cancel();
  }

  /**
   * Called when the engine has sent the container a signal, or has restarted it. Notes that this
   * came from outside the platform, unless the platform itself is ending the container.
   */
  signalled(): void {
    this.#isSignalled ||= this.#asked === "not" && this.#endReason === null;
  }

  /** Kills it for this reason. */
  endFor(reason: string): void {
    this.#killFor(reason);
    void this.look();
  }

  /** Resolves when all output of an exited container is delivered; false: it was closed before. */
  deliver(): Promise<boolean> {
    return this.#log.end();
  }

  /** See `Driver`. A server on the loopback address of its container gets no calls. */
  async whyUnreached(): Promise<string | null> {
    const tables = await runInside(this.#options.engine, this.containerId, [
      "cat",
      "/proc/net/tcp",
      "/proc/net/tcp6",
    ]);
    return listensElsewhere(listeningSockets(tables.output), {
      port: this.record.port,
      needsAll: true,
    });
  }

  /** Removes the container with its anonymous volumes (`v`), and what was kept of it. */
  async remove(): Promise<void> {
    await unlessStatus(goneStatuses, this.#calls.remove({ force: true, v: true }));
    this.#options.file.remove();
  }

  /** Stops watching; the container keeps running. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#log.close();
    await this.#turn;
  }

  /** Stops watching a container whose start failed or was aborted, and keeps nothing of it. */
  async discard(): Promise<void> {
    await this.close();
    this.#options.file.remove();
  }

  async #look(): Promise<void> {
    // The engine answers 404 if the container has been removed.
    const info = await unlessStatus([404], this.#calls.inspect());
    if (this.#isClosed) return;
    if (info === undefined) return this.#end(removed, null);
    if (info.State.Running) {
      this.#prepare(info);
      // Another start time shows a restart: the calls in progress are lost, and the address may be
      // another one.
      if (Date.parse(info.State.StartedAt) !== this.#startedAtMs) {
        this.signalled();
        this.#killFor(restarted);
      }
      return await this.#signalIfAsked();
    }
    if (info.State.Status !== "created") await this.#endOf(info.State);
  }

  /** Has the next turn kill the container. */
  #killFor(reason: string): void {
    this.#endReason ??= reason;
    this.#killAtMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Notes the address of a running container, and begins to follow its log and its disk usage. Does
   * nothing once the address is known.
   */
  #prepare(info: ContainerInspectInfo): void {
    if (this.#address !== null) return;
    const { isNew, sink, record } = this.#options;
    this.#address = addressOf(info, this.#options);
    this.#startedAtMs = Date.parse(info.State.StartedAt);
    this.#firstPid = info.State.Pid;
    const { StopSignal } = info.Config as { readonly StopSignal?: string };
    this.#stopSignal = StopSignal ?? "SIGTERM";
    this.#log.follow();
    this.#watchDisk(info);
    if (!isNew || this.#address === null) return;
    const { replicaId } = record;
    sink.event({
      kind: "started",
      replicaId,
      at: this.#startedAtMs,
      address: this.#address,
      hint: null,
    });
  }

  /**
   * Has the disk watch measure the folders that the container writes to. The folder with changes to
   * the image's files is found only if the engine uses overlays that this process may read.
   */
  #watchDisk({ GraphDriver, Mounts, State }: ContainerInspectInfo): void {
    const { disk, machine, record, isNew } = this.#options;
    // Some engines send no `GraphDriver`, although the type says that they all do.
    const data = (GraphDriver as typeof GraphDriver | undefined)?.Data ?? {};
    const { UpperDir } = data as { readonly UpperDir?: string };
    // Engines that keep images in containerd's store do not tell the folder.
    const written = UpperDir ?? upperFolder(readText(`/proc/${State.Pid}/mountinfo`), "/");
    // An image can ask for more folders (VOLUME).
    const volumes = Mounts.filter(({ Type }) => Type === "volume").map(({ Source }) => Source);
    const paths = written === null ? volumes : [written, ...volumes];
    const folders = paths.map((path) => join(machine.root, path));
    this.#removeWriter = disk.add(
      {
        kind: "replica",
        id: record.replicaId,
        projectId: record.projectId,
        folders: () => folders,
        pid: () => State.Pid,
        end: (reason) => this.endFor(reason),
      },
      isNew,
    );
  }

  async #signalIfAsked(): Promise<void> {
    const { clock, engine, onFault } = this.#options;
    const isLate = clock.monotonicMs() >= this.#killAtMs;
    if (isLate) {
      if (this.#asked === "stopped") this.#asked = "killed";
      await unlessStatus(goneStatuses, this.#calls.kill({ signal: "SIGKILL" }));
      return;
    }
    if (this.#asked === "not" || this.#isStopSignalSent) return;
    this.#isStopSignalSent = true;
    // Not awaited, since it lasts until the processes have ended, and a later turn may have to kill
    // them.
    askToEnd(engine, this.containerId, this.#stopSignal).catch((error: unknown) => {
      this.#isStopSignalSent = false;
      onFault(error);
    });
  }

  async #endOf(state: State): Promise<void> {
    const { memoryGb, program } = this.record;
    // Calls that broke off wait for the reason, so the log is not read when memory is the reason.
    const lines = state.OOMKilled ? [] : await this.#log.lastErrorLines().catch(() => []);
    // The runtime's own lines about a failed start follow the traceback, and begin with "|| ".
    const lastErrorLine =
      lines.findLast(({ text }) => text.trim() !== "" && !text.startsWith("|| ")) ?? null;
    const command = {
      exitCode: state.ExitCode,
      program,
      lastErrorLine: lastErrorLine?.text ?? null,
      readBegin: (path: string, bytesMax: number) => beginOfFile(this.#calls, path, bytesMax),
    };
    const { clock } = this.#options;
    const problem = await withDeadline(clock, problemWaitMs, commandProblem(command)).catch(
      () => null,
    );
    const summary = exitSummary({
      commandProblem: problem,
      exitCode: state.ExitCode,
      startError: null,
      lastErrorLine,
      asked: this.#asked,
      endReason: this.#endReason,
      systemAdvice: toApt,
      memoryRanOut: state.OOMKilled ? "own" : "no",
      memoryGb,
      program,
    });
    // Null if the time cannot be read.
    const at = Date.parse(state.FinishedAt) || null;
    const isByPlatform = this.#asked !== "not" || this.#endReason !== null;
    // The engine's events that show who sent the signal may arrive after the end.
    if (!isByPlatform && isSignal(state) && !this.#isExternal(at)) await clock.sleep(tellingMs);
    if (this.#isClosed) return;
    const isExternal = this.#isExternal(at);
    // Many apps exit cleanly when they are asked to, which would look like their own decision.
    const isOutsideStop = isExternal && this.#endReason === null && summary.signal === null;
    const reason = isOutsideStop ? stopped : summary.reason;
    this.#end({ ...summary, reason, isExternal }, at);
  }

  /**
   * Whether the end came from outside the platform. An end at an unknown time, or before this
   * process followed the engine's events, counts as one from outside: when an engine shuts down, it
   * stops its containers without sending events about them.
   */
  #isExternal(at: number | null): boolean {
    if (this.#asked !== "not") return false;
    const isUnwatched = this.#endReason === null && (at ?? 0) < this.#options.watchedSinceMs();
    return this.#isSignalled || isUnwatched;
  }

  #end(summary: ExitSummary, at: number | null): void {
    if (this.#ended !== null) return;
    this.#ended = summary;
    this.#log.containerGone();
    // If the container has ended before anybody looked at it, its log is not followed yet.
    this.#log.follow();
    const { sink, record, clock, file, onEnded } = this.#options;
    file.keep({ ended: summary });
    this.#removeWriter?.();
    onEnded();
    const time = at === null ? null : Math.min(at, clock.now());
    sink.event({ kind: "exited", replicaId: record.replicaId, at: time, ...summary });
    this.#gone.resolve();
  }
}

/**
 * Whether the container ended by SIGTERM or SIGKILL, which the engine may have sent for somebody.
 * The exit code is then 128 plus the signal's number. SIGKILL for lack of memory does not count.
 */
function isSignal({ ExitCode, OOMKilled }: State): boolean {
  if (OOMKilled) return false;
  const signal = ExitCode - 128;
  return signal === constants.signals.SIGTERM || signal === constants.signals.SIGKILL;
}

/** Where the app in the container takes calls; null: the engine does not say. */
function addressOf(
  { NetworkSettings }: ContainerInspectInfo,
  { record, engine }: ContainerOptions,
): Address | null {
  const { port } = record;
  // A replica is in one network, that of its app.
  const [network] = Object.values(NetworkSettings.Networks);
  if (engine.facts.hasReachableContainers) {
    const host = network?.IPAddress ?? "";
    return host === "" ? null : { host, port };
  }
  const [published] = NetworkSettings.Ports[`${port}/tcp`] ?? [];
  return published === undefined ? null : { host: "127.0.0.1", port: Number(published.HostPort) };
}
