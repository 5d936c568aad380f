// Hands the output of one replica over to the sink: both files in turns, waiting until lines are stored before reading
// on, and keeping on disk how far it came. A crash of the platform repeats at most the lines of the last moments.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import { LogFile, logStart, type LogPiece, type LogPosition } from "./log-file.ts";
import { readJson, writeIfFits, type ReplicaPaths } from "./replica-files.ts";

type Stream = "stdout" | "stderr";

export type ReplicaLogOptions = {
  readonly replicaId: ReplicaId;
  readonly paths: ReplicaPaths;
  readonly hasFrames: boolean;
  /** Resolves when stored. */
  readonly lines: (lines: readonly ReplicaLine[]) => Promise<void>;
  readonly clock: Clock;
};

/** How often the position is written while lines flow. */
const keepEveryMs = 100;
/** After these tries the lines are given up, so that a replica's end is told in the end. */
const storing: RetryPolicy = { firstMs: 100, factor: 3, msMax: 5000, jitter: 0.2, triesMax: 6 };

/** The two output files of one replica. */
export class ReplicaLog {
  readonly #options: ReplicaLogOptions;
  readonly #files: Record<Stream, LogFile>;
  readonly #stop = new AbortController();
  #cancelKeep: (() => void) | undefined;
  #isStoring = false;
  #lastErrorLine: string | null = null;

  static async open(options: ReplicaLogOptions): Promise<ReplicaLog> {
    const kept = readJson(options.paths.offsets) as Partial<Record<Stream, LogPosition>> | null;
    const openStream = (stream: Stream): Promise<LogFile> =>
      LogFile.open(options.paths[stream], { position: kept?.[stream] ?? logStart, hasFrames: options.hasFrames });
    return new ReplicaLog(options, { stdout: await openStream("stdout"), stderr: await openStream("stderr") });
  }

  private constructor(options: ReplicaLogOptions, files: Record<Stream, LogFile>) {
    this.#options = options;
    this.#files = files;
  }

  /** The last line of standard error that was not empty, for the sentence on how the replica ended. */
  get lastErrorLine(): string | null {
    return this.#lastErrorLine;
  }

  /** True while lines are being stored; `bound` then keeps the files small. */
  get isStoring(): boolean {
    return this.#isStoring;
  }

  /** Hands over all there is, or until `stop`; with `isEnd` an unfinished last line too. `isGone`: the replica may end meanwhile. */
  async flow(isEnd: boolean, isGone: () => boolean): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.bound(isGone());
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

  /** Drops the oldest unread lines of an app that writes faster than its lines can be stored. */
  async bound(isEnd = false): Promise<void> {
    const dropped = await Promise.all([this.#files.stdout.bound(isEnd), this.#files.stderr.bound(isEnd)]);
    if (dropped.includes(true)) this.#keep();
  }

  /** `flow` ends once the lines that are being stored are stored. */
  stop(): void {
    this.#stop.abort(new Error("the log was closed"));
  }

  /** Writes down how far it came. */
  async close(): Promise<void> {
    this.stop();
    this.#keep();
    await Promise.all([this.#files.stdout.close(), this.#files.stderr.close()]);
  }

  #keep(): void {
    this.#cancelKeep?.();
    this.#cancelKeep = undefined;
    const { stdout, stderr } = this.#files;
    const isKept = writeIfFits(this.#options.paths.offsets, { stdout: stdout.position, stderr: stderr.position });
    if (!isKept || this.#stop.signal.aborted) return;
    stdout.giveBack();
    stderr.giveBack();
  }

  #linesOf(stream: Stream, piece: LogPiece): ReplicaLine[] {
    const { replicaId, clock } = this.#options;
    const at = Math.round(Math.min(clock.now(), piece.writtenAt));
    const lines = piece.lines.map(({ runId, text }) => ({ replicaId, at, stream, runId, text }));
    if (stream === "stderr")
      this.#lastErrorLine = lines.findLast(({ text }) => text.trim() !== "")?.text ?? this.#lastErrorLine;
    if (piece.dropped === 0) return lines;
    const text = `[slipway] ${piece.dropped} lines were dropped here: the app wrote faster than its lines can be stored.`;
    return [{ replicaId, at, stream, runId: null, text }, ...lines];
  }

  /** False when it was closed before the lines were stored: they will be read again. */
  async #store(lines: readonly ReplicaLine[]): Promise<boolean> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    this.#isStoring = true;
    // The sink says what is wrong with it; here it only matters that lines are not lost at once.
    const options = { ...storing, clock, signal, onFailure: () => undefined };
    const isStored = await retry(options, () => this.#options.lines(lines).then(() => true));
    this.#isStoring = false;
    return isStored ?? !signal.aborted;
  }
}
