// Delivers the output of one replica to the sink. Reads from both output files in turn, waits until
// lines are stored before it reads more, and writes its position to the disk, so that only the
// newest lines are repeated after a crash of the platform.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ErrorLine } from "#drivers/exit-reason.ts";
import { droppedText, storeLines, type OutputOptions } from "#drivers/stored-lines.ts";
import { UnfinishedLine } from "#drivers/unfinished-line.ts";
import { LogFile, type LogPiece } from "./log-file.ts";
import { keptPosition, type KeptPosition } from "./log-position.ts";
import { readJson, writeIfFits } from "#drivers/json-file.ts";
import { type ReplicaPaths } from "./replica-files.ts";

type Stream = "stdout" | "stderr";

/** After `onFault`, the next `look` tries again. */
export type ReplicaLogOptions = OutputOptions & { readonly paths: ReplicaPaths };

/** How often the position is written to the disk while lines are delivered. */
const writePositionEveryMs = 100;

/** The two output files of one replica. */
export class ReplicaLog {
  readonly #options: ReplicaLogOptions;
  readonly #files: Record<Stream, LogFile>;
  readonly #stop = new AbortController();
  readonly #unfinished: Record<Stream, UnfinishedLine>;
  /** Cancels the wait for the next write of the positions. */
  #cancelWrite: (() => void) | undefined;
  /** True while the sink stores lines. */
  #isStoring = false;
  /** True when there may be output that the running delivery does not see. */
  #isNudged = false;
  /** True when the replica is gone, so that no more output is written. */
  #isGone = false;
  /** The delivery in the background. */
  #delivering: Promise<void> | null = null;
  /** The last non-empty line of standard error among those that were read in order. */
  #lastErrorLine: ErrorLine | null = null;

  static async open(options: ReplicaLogOptions): Promise<ReplicaLog> {
    const positions = readJson(options.paths.offsets) as Partial<
      Record<Stream, KeptPosition>
    > | null;
    const openStream = (stream: Stream): Promise<LogFile> =>
      LogFile.open(options.paths[stream], {
        position: positions?.[stream] ?? null,
        hasFrames: options.hasFrames,
      });
    return new ReplicaLog(options, {
      stdout: await openStream("stdout"),
      stderr: await openStream("stderr"),
    });
  }

  private constructor(options: ReplicaLogOptions, files: Record<Stream, LogFile>) {
    this.#options = options;
    this.#files = files;
    const unfinished = { clock: options.clock, onDue: () => this.look() };
    this.#unfinished = {
      stdout: new UnfinishedLine(unfinished),
      stderr: new UnfinishedLine(unfinished),
    };
  }

  /**
   * The last non-empty line of standard error so far, for the message on how the replica exited.
   */
  async lastErrorLine(): Promise<ErrorLine | null> {
    return (await this.#files.stderr.lastLine()) ?? this.#lastErrorLine;
  }

  /** Begins to deliver new output in the background. Returns at once. */
  look(): void {
    this.#isNudged = true;
    const { onFault } = this.#options;
    if (this.#isStoring) this.#skipOldOutput().catch(onFault);
    this.#delivering ??= this.#deliverWhileNudged()
      .catch(onFault)
      .finally(() => {
        this.#delivering = null;
      });
  }

  /**
   * To be called when the replica is gone: delivers the rest of its output, including an unfinished
   * last line, and closes. Resolves with false when the log was closed before everything was
   * delivered.
   */
  async end(): Promise<boolean> {
    this.#isGone = true;
    await this.#delivering;
    await this.#deliver(true);
    const isDelivered = !this.#stop.signal.aborted;
    await this.close();
    return isDelivered;
  }

  async #deliverWhileNudged(): Promise<void> {
    while (this.#isNudged && !this.#isGone && !this.#stop.signal.aborted) {
      this.#isNudged = false;
      await this.#deliver(false);
      await this.#deliverUnfinished();
    }
  }

  /** Delivers lines that have waited too long for their end. */
  async #deliverUnfinished(): Promise<void> {
    const { replicaId, clock } = this.#options;
    const lines: ReplicaLine[] = [];
    for (const stream of ["stdout", "stderr"] as const) {
      const due = this.#unfinished[stream].due(await this.#files[stream].unfinished());
      if (due !== null) lines.push({ replicaId, at: clock.now(), stream, ...due });
    }
    if (lines.length > 0) await this.#store(lines);
  }

  /** Delivers all complete lines; with `isEnd` also the last line if it is unfinished. */
  async #deliver(isEnd: boolean): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#skipOldOutput();
      const pieces: Partial<Record<Stream, LogPiece>> = {};
      const lines: ReplicaLine[] = [];
      for (const stream of ["stdout", "stderr"] as const) {
        const piece = await this.#files[stream].read(isEnd);
        if (piece === null) continue;
        pieces[stream] = piece;
        lines.push(...this.#linesOf(stream, piece));
      }
      if (pieces.stdout === undefined && pieces.stderr === undefined) return;
      if (lines.length > 0 && !(await this.#store(lines))) return;
      if (pieces.stdout !== undefined) this.#files.stdout.stored(pieces.stdout);
      if (pieces.stderr !== undefined) this.#files.stderr.stored(pieces.stderr);
      this.#cancelWrite ??= this.#options.clock.after(writePositionEveryMs, () =>
        this.#writePositions(),
      );
    }
  }

  /**
   * Notes when the output was written. If the app writes faster than its lines can be stored, skips
   * or drops old lines.
   */
  async #skipOldOutput(): Promise<void> {
    const { stdout, stderr } = this.#files;
    await Promise.all([stdout.mark(), stderr.mark()]);
    const moment = { isEnd: this.#isGone, now: this.#options.clock.now() };
    const dropped = await Promise.all([stdout.bound(moment), stderr.bound(moment)]);
    if (dropped.includes(true)) this.#writePositions();
  }

  /** Stops the delivery. Resolves when the lines that are being stored are stored. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error("the log was closed"));
    await this.#delivering;
  }

  /** Writes the positions to disk and closes the files. Call when no delivery runs (see `stop`). */
  async close(): Promise<void> {
    this.#stop.abort(new Error("the log was closed"));
    this.#unfinished.stdout.stop();
    this.#unfinished.stderr.stop();
    this.#writePositions();
    await Promise.all([this.#files.stdout.close(), this.#files.stderr.close()]);
  }

  /** Writes the positions, and then frees the disk space of output before them. */
  #writePositions(): void {
    this.#cancelWrite?.();
    this.#cancelWrite = undefined;
    const { stdout, stderr } = this.#files;
    const positions = {
      stdout: keptPosition(stdout.position),
      stderr: keptPosition(stderr.position),
    };
    const isWritten = writeIfFits(this.#options.paths.offsets, positions);
    if (!isWritten || this.#stop.signal.aborted) return;
    stdout.giveBack();
    stderr.giveBack();
  }

  #linesOf(stream: Stream, piece: LogPiece): ReplicaLine[] {
    const { replicaId, clock } = this.#options;
    const nowMs = clock.now();
    // No line gets a time in the future.
    const timeOf = (at: number): number => Math.round(Math.min(nowMs, at));
    const all = piece.lines.map(({ runId, text, at }) => ({
      replicaId,
      at: timeOf(at),
      stream,
      runId,
      text,
    }));
    if (stream === "stderr" && !piece.wasSkipped)
      this.#lastErrorLine = all.findLast(({ text }) => text.trim() !== "") ?? this.#lastErrorLine;
    // Leaves out the first line if it was delivered as unfinished already.
    const lines = piece.wasSkipped ? all : this.#unfinished[stream].finished(all);
    if (piece.dropped === 0) return [...lines];
    const text = droppedText(piece.dropped);
    return [{ replicaId, at: timeOf(piece.writtenAt), stream, runId: null, text }, ...lines];
  }

  /** False when the log was closed before the lines were stored; they will be read again. */
  async #store(lines: readonly ReplicaLine[]): Promise<boolean> {
    this.#isStoring = true;
    const isStored = await storeLines(lines, { ...this.#options, signal: this.#stop.signal });
    this.#isStoring = false;
    return isStored;
  }
}
