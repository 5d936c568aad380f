// Reads one output file of a replica from the last position, and frees the space of delivered
// output. When storing falls far behind, the newest output comes first, and the skipped output
// later. The platform never shortens the file; it punches holes into the delivered parts, which
// bounds the file's space on disk.
import { closeSync, openSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { cutLines, linesMax, unfinishedLine, type CutLine } from "#drivers/log-lines.ts";
import { inOrderMs } from "#drivers/stored-lines.ts";
import { FileHoles } from "./file-holes.ts";
import { countLines, startOfLast } from "./line-count.ts";
import { logStart, positionOf, type KeptPosition, type LogPosition } from "./log-position.ts";
import { withRightToRead } from "./replica-files.ts";
import * as skipped from "./skipped-parts.ts";
import { WriteTimes } from "./write-times.ts";

export type LogPiece = {
  /** `at`: a time by which the line had been written; for a skipped line, an estimate. */
  readonly lines: readonly (CutLine & { readonly at: number })[];
  /** Number of lines dropped before these. */
  readonly dropped: number;
  /** When the file was last written to; for a part that was skipped, when its writing began. */
  readonly writtenAt: number;
  /** True when the piece is of a part that was skipped before. */
  readonly wasSkipped: boolean;
  /** The offset in the file at which the piece begins. */
  readonly begin: number;
  /** Where reading goes on after the piece. `isCutting`: within a line that was truncated. */
  readonly next: { readonly offset: number; readonly isCutting: boolean };
};

/** Bytes per read; several times the longest line, so that every read makes progress. */
const pieceBytesMax = 256 * 1024;
/** When more skipped output than this waits, all but its newest `backlogBytesKept` are dropped. */
const backlogBytesMax = 64 * 1024 * 1024;
const backlogBytesKept = 1024 * 1024;
/**
 * Output is read in order unless more than `piecesInOrder` pieces are unread, and the oldest of
 * them was written longer ago than `inOrderMs` or they have more bytes than `inOrderBytesMax`.
 */
const inOrderBytesMax = 32 * 1024 * 1024;
const piecesInOrder = 2;
/**
 * The maximum number of skipped parts, each of which takes space in the stored position. When there
 * are more, the oldest are dropped.
 */
const partsMax = 500;
/**
 * The maximum number of lines read after a replica is gone, so that its last lines are seen soon.
 */
const endLinesMax = 10_000;
/** How much of the file's end `lastLine` reads; a line that ends a traceback is shorter. */
const tailBytesMax = 4096;
/** The byte that ends a line. */
const lineFeed = 0x0a;

/** One of the two output files of a replica. */
export class LogFile {
  readonly #handle: FileHandle;
  /** True when the runtime marks lines of runs. */
  readonly #hasFrames: boolean;
  readonly #holes: FileHoles;
  readonly #times = new WriteTimes();
  #position: LogPosition;
  /** The offset up to which new output was read or skipped, even if it is not stored yet. */
  #frontier: number;
  /** The piece that is being stored. */
  #reading: LogPiece | null = null;
  /**
   * The expected size of the next piece of new output: the size of the last one if it had the
   * maximum number of lines, otherwise `pieceBytesMax`.
   */
  #pieceBytes = pieceBytesMax;
  /** The call of `bound` that is running; null: none is. */
  #bounding: Promise<boolean> | null = null;
  /** True once the lines at the replica's end were reduced to `endLinesMax`. */
  #isEndBound = false;

  static async open(
    path: string,
    {
      position,
      hasFrames,
    }: { readonly position: KeptPosition | null; readonly hasFrames: boolean },
  ): Promise<LogFile> {
    // Create the file when it is missing: a half-removed folder must not keep the platform from
    // starting.
    closeSync(withRightToRead(path, () => openSync(path, "a+", 0o600)));
    const handle = await open(path, "r");
    const writtenAt = Math.floor((await handle.stat()).mtimeMs);
    const start = position === null ? logStart : positionOf(position, writtenAt);
    return new LogFile(path, handle, { position: start, hasFrames });
  }

  private constructor(
    path: string,
    handle: FileHandle,
    options: { position: LogPosition; hasFrames: boolean },
  ) {
    this.#handle = handle;
    this.#hasFrames = options.hasFrames;
    this.#holes = new FileHoles(path);
    this.#position = options.position;
    this.#frontier = options.position.offset;
  }

  get position(): LogPosition {
    return this.#position;
  }

  /** Remembers the current length: all output up to it was written by now. */
  async mark(): Promise<void> {
    const { size, mtimeMs } = await this.#stat();
    if (size > (this.#times.last ?? this.#frontier)) this.#times.add(size, mtimeMs);
  }

  /**
   * The last non-empty line, with the time of the last write; null when it was read already or
   * there is none.
   */
  async lastLine(): Promise<(CutLine & { readonly at: number }) | null> {
    const { size, mtimeMs } = await this.#stat();
    const from = Math.max(this.#frontier, size - tailBytesMax);
    if (from >= size) return null;
    const buffer = Buffer.allocUnsafe(size - from);
    const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, from);
    const isCutting = from > this.#frontier;
    const { lines } = cutLines(buffer.subarray(0, bytesRead), {
      isCutting,
      isEnd: true,
      hasFrames: this.#hasFrames,
    });
    const last = lines.findLast(({ text }) => text.trim() !== "");
    return last === undefined ? null : { ...last, at: mtimeMs };
  }

  /**
   * Returns the next lines; null when there are none. Repeats the same lines until `stored` is
   * called.
   */
  async read(isEnd: boolean): Promise<LogPiece | null> {
    await this.#bounding;
    const { size, mtimeMs } = await this.#stat();
    // An app may open /dev/stdout for writing, which empties the file.
    if (size < this.#position.offset) this.#startOver();
    const newPiece = await this.#readNew(isEnd, { size, mtimeMs });
    this.#reading = newPiece ?? (await this.#readSkipped());
    return this.#reading;
  }

  #startOver(): void {
    this.#position = { ...logStart, lastAt: this.#position.lastAt };
    this.#frontier = 0;
    this.#reading = null;
    this.#times.forget();
    this.#holes.forget();
  }

  /**
   * Reads output that was neither read nor skipped. Returns null while a count of dropped lines has
   * to be reported first.
   */
  async #readNew(isEnd: boolean, { size, mtimeMs }: Written): Promise<LogPiece | null> {
    const { offset, isCutting, parts } = this.#position;
    const next = skipped.nextPart(parts);
    // A part without bytes has only a count of dropped lines.
    if (next !== undefined && next.from >= next.to) return null;
    const to = Math.min(size, offset + pieceBytesMax);
    const cut = await this.#cut({ from: offset, to, isCutting, isEnd: isEnd && to === size });
    if (cut === null) return null;
    this.#frontier = offset + cut.bytes;
    this.#pieceBytes = cut.lines.length === linesMax ? cut.bytes : pieceBytesMax;
    const lines = this.#timed(cut.lines, offset, mtimeMs);
    const lastAt = Math.max(this.#position.lastAt, Math.ceil(lines.at(-1)?.at ?? 0));
    this.#position = { ...this.#position, lastAt };
    return {
      lines,
      dropped: 0,
      writtenAt: mtimeMs,
      wasSkipped: false,
      begin: offset,
      next: { offset: this.#frontier, isCutting: cut.isCutting },
    };
  }

  async #readSkipped(): Promise<LogPiece | null> {
    const part = skipped.nextPart(this.#position.parts);
    if (part === undefined) return null;
    const { from, isCutting, dropped } = part;
    const to = Math.min(part.to, from + pieceBytesMax);
    const cut = await this.#cut({ from, to, isCutting, isEnd: to === part.to });
    // For a part without bytes, `cut` is null: the piece has only the count of dropped lines.
    const end = from + (cut?.bytes ?? 0);
    const timeOf = (line: CutLine): number => skipped.timeAt(part, from + line.end);
    const lines = (cut?.lines ?? []).map((line) => ({ ...line, at: timeOf(line) }));
    return {
      lines,
      dropped,
      writtenAt: part.fromAt,
      wasSkipped: true,
      begin: from,
      next: { offset: end, isCutting: cut?.isCutting ?? false },
    };
  }

  /** Reads a piece and cuts it into lines; null when it has no whole line. */
  async #cut(piece: { from: number; to: number; isCutting: boolean; isEnd: boolean }) {
    const { from, to, isCutting, isEnd } = piece;
    if (to <= from) return null;
    const buffer = Buffer.allocUnsafe(to - from);
    const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, from);
    const cut = cutLines(buffer.subarray(0, bytesRead), {
      isCutting,
      isEnd,
      hasFrames: this.#hasFrames,
    });
    return cut.bytes === 0 ? null : cut;
  }

  /**
   * The line at the end that has no newline yet, once all lines before it were read; null when
   * there is none.
   */
  async unfinished(): Promise<ReturnType<typeof unfinishedLine>> {
    const { size } = await this.#stat();
    const { offset, isCutting } = this.#position;
    const length = size - offset;
    if (isCutting || length <= 0 || length > pieceBytesMax) return null;
    const buffer = Buffer.allocUnsafe(length);
    const { bytesRead } = await this.#handle.read(buffer, 0, length, offset);
    const tail = buffer.subarray(0, bytesRead);
    return tail.includes(lineFeed) ? null : unfinishedLine(tail, this.#hasFrames);
  }

  /**
   * The lines with their times. `from`: the offset of their first byte in the file. `writtenAt`:
   * the time of lines that were written after the last call of `mark`.
   */
  #timed(lines: readonly CutLine[], from: number, writtenAt: number): LogPiece["lines"] {
    const times = this.#times.take(lines.map(({ end }) => from + end));
    const { lastAt } = this.#position;
    return lines.map((line, index) => {
      return { ...line, at: Math.max(lastAt, times[index] ?? writtenAt) };
    });
  }

  /** Marks the lines of a piece as stored; they are not read again. */
  stored(piece: LogPiece): void {
    this.#reading = null;
    const { offset, isCutting } = piece.next;
    // If `bound` has skipped output since this piece of new output was read, the piece is now the
    // beginning of a skipped part.
    const isOfPart = piece.wasSkipped || this.#position.offset !== piece.begin;
    if (!isOfPart) {
      this.#position = { ...this.#position, offset, isCutting };
      return;
    }
    const progress = { isCutting, dropped: piece.dropped };
    // `readUpTo` returns null when nothing of the part is left.
    const parts = this.#position.parts.flatMap((part) => {
      return part.from === piece.begin ? (skipped.readUpTo(part, offset, progress) ?? []) : [part];
    });
    this.#position = { ...this.#position, parts };
  }

  /**
   * Frees the space of output that need not be read again. Call only after `position` is on disk: a
   * hole reads as zeros.
   */
  giveBack(): void {
    const { parts, offset } = this.#position;
    this.#holes.free(skipped.rangesOutside(parts, offset));
  }

  /**
   * Skips output when storing is behind, and drops the excess, even while a piece is being stored:
   * the newest lines are to be seen soon, and an app that writes endlessly must not fill the disk.
   * Returns true when it dropped something. `read` waits for a running `bound`, but do not call
   * `bound` while a `read` runs; between a `read` and its `stored` it may run. `isEnd`: no more
   * writes follow. `now`: milliseconds since the epoch.
   */
  async bound({ isEnd, now }: { readonly isEnd: boolean; readonly now: number }): Promise<boolean> {
    if (this.#bounding !== null) return false;
    this.#bounding = this.#bound(isEnd, now).finally(() => {
      this.#bounding = null;
    });
    return this.#bounding;
  }

  async close(): Promise<void> {
    await this.#bounding;
    await this.#holes.settled();
    await this.#handle.close();
  }

  async #bound(isEnd: boolean, now: number): Promise<boolean> {
    const written = await this.#stat();
    if (this.#isBehind(written, now)) await this.#skipToEnd(written);
    const isDropped = await this.#dropExcess();
    if (!isEnd || this.#isEndBound) return isDropped;
    this.#isEndBound = true;
    return (await this.#boundEnd(written)) || isDropped;
  }

  /** Drops the oldest skipped output when there is too much of it. Returns true then. */
  async #dropExcess(): Promise<boolean> {
    const parts = this.#position.parts.filter(({ from, to }) => from < to);
    let bytes = skipped.bytesOf(parts);
    let count = parts.length;
    if (bytes <= backlogBytesMax && count <= partsMax) return false;
    // Within the limit of bytes, nothing is dropped for its bytes. A part beyond `partsMax` is
    // dropped as a whole.
    const bytesKept = bytes > backlogBytesMax ? backlogBytesKept : backlogBytesMax;
    for (const part of parts) {
      const size = part.to - part.from;
      const excess = count > partsMax ? size : Math.min(size, bytes - bytesKept);
      if (excess <= 0) break;
      bytes -= size;
      count--;
      await this.#drop(part, part.from + excess);
    }
    return true;
  }

  /** The offset of the first output that is neither stored, being stored, nor skipped. */
  get #unread(): number {
    const { offset } = this.#position;
    const reading = this.#reading;
    const isNew = reading !== null && !reading.wasSkipped && reading.begin === offset;
    return isNew ? reading.next.offset : offset;
  }

  /** The time by which the oldest unread output was written. */
  #oldestAt({ mtimeMs }: Written): number {
    return this.#times.after(this.#unread) ?? mtimeMs;
  }

  /** True when output has to be skipped; see `inOrderBytesMax`. */
  #isBehind(written: Written, now: number): boolean {
    const bytes = written.size - this.#unread;
    if (bytes <= piecesInOrder * this.#pieceBytes) return false;
    return now - this.#oldestAt(written) > inOrderMs || bytes > inOrderBytesMax;
  }

  /** Skips unread output, so that reading goes on shortly before the end. */
  async #skipToEnd(written: Written): Promise<void> {
    const { size } = written;
    const buffer = Buffer.allocUnsafe(Math.min(pieceBytesMax, size - this.#unread));
    const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, size - buffer.length);
    const end = buffer.subarray(0, bytesRead);
    // Reading goes on after the first newline in the last half piece of the file. If that half has
    // none, reading goes on after the last newline in `end`.
    const halfPiece = Math.floor(this.#pieceBytes / 2);
    const near = end.indexOf(lineFeed, Math.max(0, end.length - halfPiece));
    const newline = near < 0 ? end.lastIndexOf(lineFeed) : near;
    if (newline >= 0) {
      this.#skip(size - buffer.length + newline + 1, { written, isCutting: false });
      return;
    }
    // A line as long as a whole piece is cut. A shorter one is still being written: it stays whole.
    if (bytesRead === pieceBytesMax) this.#skip(size, { written, isCutting: true });
  }

  /** Makes the unread output before `to` a skipped part. `rest`: the output from `to` on. */
  #skip(to: number, rest: { readonly written: Written; readonly isCutting: boolean }): void {
    const { written } = rest;
    const { offset, isCutting, parts, lastAt } = this.#position;
    // One millisecond is left for the lines after the part, which have a later time (see `lastAt`).
    const fromAt = Math.max(lastAt, Math.floor(this.#oldestAt(written)) - 1);
    const toAt = Math.max(fromAt, Math.floor(written.mtimeMs) - 1);
    const part = { from: offset, to, fromAt, toAt, isCutting, dropped: 0 };
    this.#frontier = to;
    this.#position = {
      offset: to,
      isCutting: rest.isCutting,
      parts: skipped.joinedParts([...parts, part]),
      // Lines after the part get later times than lines of the part, though they are stored first.
      lastAt: toAt + 1,
    };
  }

  /**
   * Drops all but the last `endLinesMax` lines that are not stored yet. It counts unread lines
   * first, then those of skipped parts, from the newest part to the oldest. Unread lines in excess
   * become a part. Returns true when it dropped lines.
   */
  async #boundEnd(written: Written): Promise<boolean> {
    const unread = this.#unread;
    const start = await startOfLast(this.#handle, endLinesMax, { from: unread, to: written.size });
    if (start.offset > unread) this.#skip(start.offset, { written, isCutting: false });
    let isDropped = false;
    let linesLeft = start.left;
    for (const part of this.#position.parts.toReversed()) {
      const last = await startOfLast(this.#handle, linesLeft, part);
      linesLeft = last.left;
      if (last.offset <= part.from) continue;
      isDropped = true;
      await this.#drop(part, last.offset);
    }
    return isDropped;
  }

  /** Limits the size: that of a sparse file may exceed the largest readable offset. */
  async #stat(): Promise<Written> {
    const { size, mtimeMs } = await this.#handle.stat();
    return { size: Math.min(size, Number.MAX_SAFE_INTEGER - pieceBytesMax), mtimeMs };
  }

  /**
   * Drops the part up to the last newline before `to` and counts the dropped lines. Bytes that are
   * too many to be scanned count as one line. Output that is being stored is not dropped.
   */
  async #drop(part: skipped.SkippedPart, to: number): Promise<void> {
    const reading = this.#reading;
    let { from } = part;
    if (reading?.begin === from) from = Math.max(from, reading.next.offset);
    if (to <= from) return;
    const counted = await countLines(this.#handle, { from, to });
    // While the lines were counted, `stored` may have moved the part's beginning, but not its end.
    const parts = this.#position.parts.flatMap((candidate) => {
      return candidate.to === part.to && candidate.from <= from
        ? skipped.withoutLines(candidate, from, counted)
        : [candidate];
    });
    this.#position = { ...this.#position, parts: skipped.joinedParts(parts) };
  }
}

/** The length of the file, and when it was last written to. */
type Written = { readonly size: number; readonly mtimeMs: number };
