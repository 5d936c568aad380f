// Delivers the output of one replica to the sink. Alternates between both files, waits until lines
// are stored before it reads more, and stores its position on disk. A crash of the platform repeats
// only the most recent lines.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ErrorLine } from "#drivers/exit-reason.ts";
import { droppedText, storeLines, type OutputOptions } from "#drivers/stored-lines.ts";
import { UnfinishedLine } from "#drivers/unfinished-line.ts";
import { LogFile, type LogPiece } from "./log-file.ts";
import { keptPosition, type KeptPosition } from "./log-position.ts";
import { readJson, writeIfFits } from "#drivers/json-file.ts";
import { type ReplicaPaths } from "./replica-files.ts";

type Stream = "stdout" | "stderr";

/** After `onFault`, `look` tries again. */
export type ReplicaLogOptions = OutputOptions & { readonly paths: ReplicaPaths };

/** How often the position is written while lines are flowing. */
const keepEveryMs = 100;
/** The two output files of one replica. */
export class ReplicaLog {
  readonly #options: ReplicaLogOptions;
  readonly #files: Record<Stream, LogFile>;
  readonly #stop = new AbortController();
  readonly #unfinished: Record<Stream, UnfinishedLine>;
  #cancelKeep: (() => void) | undefined;
  #isStoring = false;
  #isNudged = false;
  #isGone = false;
  #flow: Promise<void> | null = null;
  #lastErrorLine: ErrorLine | null = null;

  static async open(options: ReplicaLogOptions): Promise<ReplicaLog> {
    const kept = readJson(options.paths.offsets) as Partial<Record<Stream, KeptPosition>> | null;
    const openStream = (stream: Stream): Promise<LogFile> =>
      LogFile.open(options.paths[stream], {
        position: kept?.[stream] ?? null,
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

  /** Delivers available output. Returns at once: storing lines delays nothing but further lines. */
  look(): void {
    this.#isNudged = true;
    const { onFault } = this.#options;
    if (this.#isStoring) this.#bound().catch(onFault);
    this.#flow ??= this.#flows()
      .catch(onFault)
      .finally(() => {
        this.#flow = null;
      });
  }

  /**
   * The replica is gone: delivers the rest of its output, with an unfinished last line, and closes.
   * False: closed before.
   */
  async end(): Promise<boolean> {
    this.#isGone = true;
    await this.#flow;
    await this.#deliver(true);
    const isDelivered = !this.#stop.signal.aborted;
    await this.close();
    return isDelivered;
  }

  async #flows(): Promise<void> {
    while (this.#isNudged && !this.#isGone && !this.#stop.signal.aborted) {
      this.#isNudged = false;
      await this.#deliver(false);
      await this.#deliverUnfinished();
    }
  }

  async #deliverUnfinished(): Promise<void> {
    const { replicaId, clock } = this.#options;
    const lines: ReplicaLine[] = [];
    for (const stream of ["stdout", "stderr"] as const) {
      const due = this.#unfinished[stream].due(await this.#files[stream].unfinished());
      if (due !== null) lines.push({ replicaId, at: clock.now(), stream, ...due });
    }
    if (lines.length > 0) await this.#store(lines);
  }

  async #deliver(isEnd: boolean): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#bound();
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
      this.#cancelKeep ??= this.#options.clock.after(keepEveryMs, () => this.#keep());
    }
  }

  /**
   * Notes when the output was written. When the app writes faster than its lines can be stored,
   * skips the older ones, or drops them.
   */
  async #bound(): Promise<void> {
    const { stdout, stderr } = this.#files;
    await Promise.all([stdout.mark(), stderr.mark()]);
    const given = { isEnd: this.#isGone, now: this.#options.clock.now() };
    const dropped = await Promise.all([stdout.bound(given), stderr.bound(given)]);
    if (dropped.includes(true)) this.#keep();
  }

  /** Resolves once the current lines are stored, after which it delivers no more. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error("the log was closed"));
    await this.#flow;
  }

  /** Writes the position to disk. Call after `stop`. */
  async close(): Promise<void> {
    this.#stop.abort(new Error("the log was closed"));
    this.#unfinished.stdout.stop();
    this.#unfinished.stderr.stop();
    this.#keep();
    await Promise.all([this.#files.stdout.close(), this.#files.stderr.close()]);
  }

  #keep(): void {
    this.#cancelKeep?.();
    this.#cancelKeep = undefined;
    const { stdout, stderr } = this.#files;
    const positions = {
      stdout: keptPosition(stdout.position),
      stderr: keptPosition(stderr.position),
    };
    const isKept = writeIfFits(this.#options.paths.offsets, positions);
    if (!isKept || this.#stop.signal.aborted) return;
    stdout.giveBack();
    stderr.giveBack();
  }

  #linesOf(stream: Stream, piece: LogPiece): ReplicaLine[] {
    const { replicaId, clock } = this.#options;
    const nowMs = clock.now();
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
    const lines = piece.wasSkipped ? all : this.#unfinished[stream].finished(all);
    if (piece.dropped === 0) return [...lines];
    const text = droppedText(piece.dropped);
    return [{ replicaId, at: timeOf(piece.writtenAt), stream, runId: null, text }, ...lines];
  }

  /** False when closed before the lines were stored: they will be read again. */
  async #store(lines: readonly ReplicaLine[]): Promise<boolean> {
    this.#isStoring = true;
    const isStored = await storeLines(lines, { ...this.#options, signal: this.#stop.signal });
    this.#isStoring = false;
    return isStored;
  }
}
