// Gives the space of parts of a file back to the disk. The file keeps its length; the freed parts
// read as zeros.
import { execFile } from "node:child_process";

type Range = { readonly from: number; readonly to: number };

/**
 * A range is freed when at least so many of its bytes are not freed yet: each time costs a start of
 * `fallocate`.
 */
const newBytesMin = 1024 * 1024;
/** The size of a block; only whole blocks are freed. */
const blockBytes = 4096;
/** How long one call of `fallocate` may take. */
const punchTimeoutMs = 30_000;

/** The holes in one file. */
export class FileHoles {
  readonly #path: string;
  /** The ranges of the latest `free`. */
  #wanted: readonly Range[] = [];
  /** The ranges that are freed, or being freed. */
  #punched: readonly Range[] = [];
  #punching: Promise<void> | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** Begins to free these ranges: all parts of the file that are not needed now. Never fails. */
  free(ranges: readonly Range[]): void {
    this.#wanted = ranges;
    // While holes are being punched, `#punchAll` also takes the ranges that are given meanwhile:
    // perhaps `free` is not called again.
    this.#punching ??= this.#punchAll().finally(() => {
      this.#punching = null;
    });
  }

  /** Call this when the file was emptied: it has no holes any more. */
  forget(): void {
    this.#wanted = [];
    this.#punched = [];
  }

  /** Resolves when no hole is being punched. */
  async settled(): Promise<void> {
    await this.#punching;
  }

  async #punchAll(): Promise<void> {
    for (let ranges = this.#takeNew(); ranges.length > 0; ranges = this.#takeNew()) {
      await Promise.all(ranges.map((range) => punch(this.#path, range)));
    }
  }

  /** The wanted ranges that are not punched yet; from now on they count as punched. */
  #takeNew(): readonly Range[] {
    const ranges = this.#wanted.filter(({ from, to }) => {
      const overlaps = this.#punched.map((hole) =>
        Math.max(0, Math.min(to, hole.to) - Math.max(from, hole.from)),
      );
      const freedBytes = overlaps.reduce((sum, bytes) => sum + bytes, 0);
      return to - from - freedBytes >= newBytesMin;
    });
    // The new ranges take the place of the holes that they overlap.
    const untouched = this.#punched.filter(
      (hole) => !ranges.some(({ from, to }) => from < hole.to && hole.from < to),
    );
    this.#punched = [...untouched, ...ranges];
    return ranges;
  }
}

/**
 * Frees the whole blocks of a range. Without support by `fallocate` or the file system, the file
 * keeps its space.
 */
function punch(path: string, { from, to }: Range): Promise<void> {
  const start = Math.ceil(from / blockBytes) * blockBytes;
  const length = Math.floor(to / blockBytes) * blockBytes - start;
  if (length <= 0 || process.platform !== "linux") return Promise.resolve();
  return new Promise((resolve) => {
    const words = ["--punch-hole", "--offset", String(start), "--length", String(length), path];
    execFile("fallocate", words, { timeout: punchTimeoutMs }, () => resolve());
  });
}
