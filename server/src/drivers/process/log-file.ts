// Reads one output file of a replica from the last position, and frees the space of delivered output. The file's length
// only grows; holes are punched in the delivered part, which bounds its space on disk.
import { execFile } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { cutLines, unfinishedLine, type CutLine } from "#drivers/log-lines.ts";
import { withRightToRead } from "./replica-files.ts";

/** How far the file was delivered; stored on disk. `gap`: a part that was dropped unread because there was too much output. */
export type LogPosition = {
  readonly offset: number;
  readonly isCutting: boolean;
  readonly gap: { readonly from: number; readonly to: number; readonly lines: number } | null;
};

/** The position before anything was delivered. */
export const logStart: LogPosition = { offset: 0, isCutting: false, gap: null };

export type LogPiece = {
  /** `at`: when the file was first seen to reach that far, or later. */
  readonly lines: readonly (CutLine & { readonly at: number })[];
  /** Number of lines dropped before these. */
  readonly dropped: number;
  /** The time of the last write to the file. */
  readonly writtenAt: number;
  readonly next: { readonly offset: number; readonly isCutting: boolean; readonly endsGap: boolean };
};

/** Bytes per read; several times the longest line, so that every read makes progress. */
const pieceBytesMax = 256 * 1024;
/** A larger backlog is dropped, except for its newest part. */
const backlogBytesMax = 64 * 1024 * 1024;
const backlogBytesKept = 1024 * 1024;
/** Bytes scanned in a dropped part; an app can make a sparse file of terabytes. */
const countedBytesMax = 256 * 1024 * 1024;
/** Lines per MB to count exactly; the rest is extrapolated from those. */
const countedLinesMax = 16_384;
/** The maximum number of lines read after a replica is gone, so that its last lines are soon to be seen. */
const endLinesMax = 10_000;
/** Where `lastLine` looks; a line that ends a traceback is shorter. */
const tailBytesMax = 4096;
/** An even number of remembered lengths: beyond it, half of them are forgotten. */
const marksMax = 1024;
/** Holes are punched in steps of at least this size. */
const punchBytesMin = 1024 * 1024;
const blockBytes = 4096;

/** One of the two output files of a replica. */
export class LogFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #hasFrames: boolean;
  #position: LogPosition;
  /** The position last written to disk. */
  #kept: LogPosition;
  /** The end of a piece that was read but is not stored yet. */
  #frontier: number;
  #punchedTo = 0;
  #punchedGapTo = 0;
  #punching: Promise<void> | null = null;
  #bounding: Promise<boolean> | null = null;
  #isEndBound = false;
  /** Lengths of the file, each with the time of the write that made it. */
  #marks: { readonly length: number; readonly at: number }[] = [];

  static async open(path: string, options: { position: LogPosition; hasFrames: boolean }): Promise<LogFile> {
    // Create it when missing: a half-removed folder must not keep the platform from starting.
    closeSync(withRightToRead(path, () => openSync(path, "a+", 0o600)));
    return new LogFile(path, await open(path, "r"), options);
  }

  private constructor(path: string, handle: FileHandle, options: { position: LogPosition; hasFrames: boolean }) {
    this.#path = path;
    this.#handle = handle;
    this.#hasFrames = options.hasFrames;
    this.#position = options.position;
    this.#kept = options.position;
    this.#frontier = options.position.offset;
  }

  get position(): LogPosition {
    return this.#position;
  }

  /** Remembers the current length: what is read later was written by now. */
  async mark(): Promise<void> {
    const { size, mtimeMs } = await this.#stat();
    if (size <= (this.#marks.at(-1)?.length ?? this.#frontier)) return;
    this.#marks.push({ length: size, at: mtimeMs });
    if (this.#marks.length === marksMax) this.#marks = this.#marks.filter((_, index) => index % 2 === 1);
  }

  /** The last non-empty line that was not read yet, with the time of the last write; null when there is none. */
  async lastLine(): Promise<(CutLine & { readonly at: number }) | null> {
    const { size, mtimeMs } = await this.#stat();
    const from = Math.max(this.#frontier, size - tailBytesMax);
    if (from >= size) return null;
    const buffer = Buffer.allocUnsafe(size - from);
    const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, from);
    const isCutting = from > this.#frontier;
    const { lines } = cutLines(buffer.subarray(0, bytesRead), { isCutting, isEnd: true, hasFrames: this.#hasFrames });
    const last = lines.findLast(({ text }) => text.trim() !== "");
    return last === undefined ? null : { ...last, at: mtimeMs };
  }

  /** Returns the next lines; null when there are none. Repeats the same lines until `stored` is called. */
  async read(isEnd: boolean): Promise<LogPiece | null> {
    await this.#bounding;
    const { size, mtimeMs } = await this.#stat();
    // An app may open /dev/stdout for writing, which empties the file.
    if (size < this.#position.offset) [this.#position, this.#marks] = [logStart, []];
    const { offset, isCutting, gap } = this.#position;
    const endsGap = gap !== null && offset >= gap.from;
    const from = endsGap ? Math.max(gap.to, offset) : offset;
    const isBeforeGap = gap !== null && !endsGap;
    const end = Math.min(isBeforeGap ? gap.from : size, from + pieceBytesMax);
    if (end <= from && !endsGap) return null;
    const buffer = Buffer.allocUnsafe(Math.max(0, end - from));
    const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, from);
    const cut = cutLines(buffer.subarray(0, bytesRead), {
      isCutting: endsGap ? false : isCutting,
      isEnd: (isEnd && end === size) || (isBeforeGap && end === gap.from),
      hasFrames: this.#hasFrames,
    });
    if (cut.bytes === 0 && !endsGap) return null;
    this.#frontier = from + cut.bytes;
    return {
      lines: this.#timed(cut.lines, from, mtimeMs),
      dropped: endsGap ? gap.lines : 0,
      writtenAt: mtimeMs,
      next: { offset: from + cut.bytes, isCutting: cut.isCutting, endsGap },
    };
  }

  /** The line without a newline at its end, once all before it was read; null when there is none. */
  async unfinished(): Promise<ReturnType<typeof unfinishedLine>> {
    const { size } = await this.#stat();
    const { offset, isCutting, gap } = this.#position;
    const length = size - offset;
    if (isCutting || gap !== null || length <= 0 || length > pieceBytesMax) return null;
    const buffer = Buffer.allocUnsafe(length);
    const { bytesRead } = await this.#handle.read(buffer, 0, length, offset);
    const rest = buffer.subarray(0, bytesRead);
    return rest.includes(0x0a) ? null : unfinishedLine(rest, this.#hasFrames);
  }

  #timed(lines: readonly CutLine[], from: number, lastAt: number): LogPiece["lines"] {
    const marks = this.#marks;
    let index = 0;
    const timed = lines.map((line) => {
      while ((marks[index]?.length ?? Number.POSITIVE_INFINITY) < from + line.end) index++;
      return { ...line, at: marks[index]?.at ?? lastAt };
    });
    marks.splice(0, index);
    return timed;
  }

  /** Marks the lines of a piece as stored; they are not read again. */
  stored(piece: LogPiece): void {
    const { offset, isCutting, endsGap } = piece.next;
    let { gap } = this.#position;
    // While a piece was being stored, more output behind it may have been dropped.
    if (endsGap && gap !== null) {
      gap = gap.to <= offset ? null : { from: offset, to: gap.to, lines: gap.lines - piece.dropped };
    }
    this.#position = { offset, isCutting, gap };
  }

  /** Frees the space of output that need not be read again. Call only after `position` is on disk: a hole reads as zeros. */
  giveBack(): void {
    this.#kept = this.#position;
    // If more is dropped while a hole is being punched, free that afterwards: nothing else may ever trigger it.
    this.#punching ??= this.#punchAll().finally(() => {
      this.#punching = null;
    });
  }

  async #punchAll(): Promise<void> {
    for (let ranges = this.#unpunched(); ranges.length > 0; ranges = this.#unpunched()) {
      await Promise.all(ranges.map(([from, to]) => this.#punchRange(from, to)));
    }
  }

  #unpunched(): [number, number][] {
    const { offset, gap } = this.#kept;
    const upTo = gap !== null && gap.from <= offset ? gap.to : offset;
    const ranges: [number, number][] = [];
    if (upTo - this.#punchedTo >= punchBytesMin) {
      ranges.push([this.#punchedTo, upTo]);
      this.#punchedTo = upTo - (upTo % blockBytes);
    }
    if (gap !== null && gap.from > offset && gap.to > this.#punchedGapTo) {
      ranges.push([Math.max(gap.from, this.#punchedGapTo), gap.to]);
      this.#punchedGapTo = gap.to;
    }
    return ranges;
  }

  /**
   * Drops the excess, even while a piece is being stored: an app that writes endlessly must not fill the disk. Returns true when
   * it dropped something. `read` waits for it; do not start it during a `read`. `isEnd`: no more writes follow.
   */
  async bound(isEnd = false): Promise<boolean> {
    if (this.#bounding !== null) return false;
    this.#bounding = this.#bound(isEnd).finally(() => {
      this.#bounding = null;
    });
    return this.#bounding;
  }

  async close(): Promise<void> {
    await this.#bounding;
    await this.#punching;
    await this.#handle.close();
  }

  async #bound(isEnd: boolean): Promise<boolean> {
    const { size } = await this.#stat();
    const from = Math.max(this.#position.gap?.to ?? 0, this.#frontier);
    if (size - from > backlogBytesMax) {
      await this.#drop(from, size - backlogBytesKept);
      return true;
    }
    if (!isEnd || this.#isEndBound) return false;
    this.#isEndBound = true;
    const to = await this.#startOfLast(endLinesMax, { from, size });
    if (to > from) await this.#drop(from, to);
    return to > from;
  }

  /** Offset where the last `linesMax` lines start; `from` when there are no more. */
  async #startOfLast(linesMax: number, { from, size }: { from: number; size: number }): Promise<number> {
    const buffer = Buffer.allocUnsafe(pieceBytesMax);
    let lines = 0;
    for (let end = size; end > from;) {
      const start = Math.max(from, end - buffer.length);
      const { bytesRead } = await this.#handle.read(buffer, 0, end - start, start);
      const read = buffer.subarray(0, bytesRead);
      for (
        let index = read.lastIndexOf(0x0a);
        index >= 0;
        index = index === 0 ? -1 : read.lastIndexOf(0x0a, index - 1)
      ) {
        if (++lines > linesMax) return start + index + 1;
      }
      end = start;
    }
    return from;
  }

  /** The size of a sparse file may exceed the largest readable offset. */
  async #stat(): Promise<{ readonly size: number; readonly mtimeMs: number }> {
    const { size, mtimeMs } = await this.#handle.stat();
    return { size: Math.min(size, Number.MAX_SAFE_INTEGER - pieceBytesMax), mtimeMs };
  }

  /**
   * Turns the range, up to the last newline before `to`, into a gap and counts its lines. A part that is not scanned
   * counts as one line.
   */
  async #drop(from: number, to: number): Promise<void> {
    const buffer = Buffer.allocUnsafe(1024 * 1024);
    const first = Math.max(from, to - countedBytesMax);
    let lines = first > from ? 1 : 0;
    let end = first;
    for (let at = first; at < to;) {
      const { bytesRead } = await this.#handle.read(buffer, 0, Math.min(buffer.length, to - at), at);
      if (bytesRead === 0) break;
      const read = buffer.subarray(0, bytesRead);
      lines += countLines(read);
      const last = read.lastIndexOf(0x0a);
      if (last >= 0) end = at + last + 1;
      at += bytesRead;
    }
    if (end === first) [lines, end] = [lines + 1, to];
    const { gap } = this.#position;
    this.#position = {
      ...this.#position,
      gap: gap === null ? { from, to: end, lines } : { from: gap.from, to: end, lines: gap.lines + lines },
    };
  }

  /** Without support by `fallocate` or the file system, the file keeps its space until the replica is forgotten. */
  #punchRange(from: number, to: number): Promise<void> {
    const start = from + ((blockBytes - (from % blockBytes)) % blockBytes);
    const length = to - (to % blockBytes) - start;
    if (length <= 0 || process.platform !== "linux") return Promise.resolve();
    return new Promise((resolve) => {
      const range = ["--punch-hole", "--offset", String(start), "--length", String(length), this.#path];
      execFile("fallocate", range, { timeout: 30_000 }, () => resolve());
    });
  }
}

/** Exact for lines of normal length; extrapolates for many short ones, since counting those costs as much as reading them. */
function countLines(bytes: Buffer): number {
  let lines = 0;
  for (let index = bytes.indexOf(0x0a); index >= 0; index = bytes.indexOf(0x0a, index + 1)) {
    if (++lines === countedLinesMax) return Math.round((lines * bytes.length) / (index + 1));
  }
  return lines;
}
