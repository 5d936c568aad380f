// Reads one output file of a replica from where it was left, and gives back the room of what was handed over. The file
// only grows in length; a hole is punched where it was read, so that its room on the disk stays bounded.
import { execFile } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { cutLines, type CutLine } from "#drivers/log-lines.ts";
import { withRightToRead } from "./replica-files.ts";

/** How far a file was handed over; kept on disk. `gap`: a part that was dropped unread because there was too much. */
export type LogPosition = {
  readonly offset: number;
  readonly isCutting: boolean;
  readonly gap: { readonly from: number; readonly to: number; readonly lines: number } | null;
};

/** Nothing was handed over yet. */
export const logStart: LogPosition = { offset: 0, isCutting: false, gap: null };

export type LogPiece = {
  readonly lines: readonly CutLine[];
  /** Lines that were dropped before these. */
  readonly dropped: number;
  /** When the file was last written to; its lines are at most that old. */
  readonly writtenAt: number;
  readonly next: { readonly offset: number; readonly isCutting: boolean; readonly endsGap: boolean };
};

/** Read at once; several times the longest line, so that every read gets on. */
const pieceBytesMax = 256 * 1024;
/** More than this unread is dropped, but for the newest part. */
const backlogBytesMax = 32 * 1024 * 1024;
const backlogBytesKept = 1024 * 1024;
/** So much of what is dropped is looked through; an app can make a file of terabytes that takes no room. */
const countedBytesMax = 256 * 1024 * 1024;
/** Lines of one MB that are counted one by one; how many more there are is concluded from those. */
const countedLinesMax = 16_384;
/** Of a replica that is gone no more lines than these are read, so that its end is told soon. */
const endLinesMax = 100_000;
/** Room is given back in steps of at least this. */
const punchBytesMin = 1024 * 1024;
const blockBytes = 4096;

/** One of the two output files of a replica. */
export class LogFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #hasFrames: boolean;
  #position: LogPosition;
  /** As it was last written down. */
  #kept: LogPosition;
  /** Up to where a piece was read that is not stored yet. */
  #frontier: number;
  #punchedTo = 0;
  #punchedGapTo = 0;
  #punching: Promise<void> | null = null;
  #bounding: Promise<boolean> | null = null;
  #isEndBound = false;

  static async open(path: string, options: { position: LogPosition; hasFrames: boolean }): Promise<LogFile> {
    // Made when it is missing: a folder that was half removed must not keep the platform from starting.
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

  /** The next lines; null when there is none. The same again until `stored` is called. */
  async read(isEnd: boolean): Promise<LogPiece | null> {
    await this.#bounding;
    const { size, mtimeMs } = await this.#stat();
    // An app may open /dev/stdout for writing, which empties the file.
    if (size < this.#position.offset) this.#position = logStart;
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
      lines: cut.lines,
      dropped: endsGap ? gap.lines : 0,
      writtenAt: mtimeMs,
      next: { offset: from + cut.bytes, isCutting: cut.isCutting, endsGap },
    };
  }

  /** The lines of a piece need not be read again. */
  stored(piece: LogPiece): void {
    const { offset, isCutting, endsGap } = piece.next;
    let { gap } = this.#position;
    // While a piece was being stored, more may have been dropped behind it.
    if (endsGap && gap !== null) {
      gap = gap.to <= offset ? null : { from: offset, to: gap.to, lines: gap.lines - piece.dropped };
    }
    this.#position = { offset, isCutting, gap };
  }

  /** Gives back the room of what need not be read again. Only after `position` was written down: a hole reads as zeros. */
  giveBack(): void {
    this.#kept = this.#position;
    // What is dropped while a hole is being punched is given back after it: nothing else may ever ask for that again.
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
   * Drops what is too much, even while a piece is being stored: an app that writes without end must not fill the disk.
   * True when it did. `read` waits for it; it must not begin while a `read` is at work. `isEnd`: nothing more is written.
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

  /** Where the last `linesMax` lines begin; `from` when there are no more. */
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

  /** A file without content may be larger than any place in it that can be read. */
  async #stat(): Promise<{ readonly size: number; readonly mtimeMs: number }> {
    const { size, mtimeMs } = await this.#handle.stat();
    return { size: Math.min(size, Number.MAX_SAFE_INTEGER - pieceBytesMax), mtimeMs };
  }

  /** Counts the lines between, up to the last newline before `to`, and makes them a gap. What is not looked through counts as one line. */
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

  /** Where `fallocate` or the file system cannot do it, the file keeps its room until the replica is forgotten. */
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

/** Exact for lines of usual length; many short ones are counted in part, since that costs as much as to read them. */
function countLines(bytes: Buffer): number {
  let lines = 0;
  for (let index = bytes.indexOf(0x0a); index >= 0; index = bytes.indexOf(0x0a, index + 1)) {
    if (++lines === countedLinesMax) return Math.round((lines * bytes.length) / (index + 1));
  }
  return lines;
}
