// Gives the space of parts of a file back to the disk. The file keeps its length; what was freed
// reads as zeros.
import { execFile } from "node:child_process";

type Range = { readonly from: number; readonly to: number };

/** A range is freed again when at least so much of it is new. */
const newBytesMin = 1024 * 1024;
/** Only whole blocks are freed. */
const blockBytes = 4096;

/** The holes in one file. */
export class FileHoles {
  readonly #path: string;
  #wanted: readonly Range[] = [];
  #punched: readonly Range[] = [];
  #punching: Promise<void> | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** Begins to free these ranges, all that may be free now. Never fails. */
  free(ranges: readonly Range[]): void {
    this.#wanted = ranges;
    // What is wanted while holes are being punched is freed afterwards: nothing else may ever
    // cause it.
    this.#punching ??= this.#punchAll().finally(() => {
      this.#punching = null;
    });
  }

  /** The file was emptied: it has no holes any more. */
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
      const done = this.#punched.map((one) =>
        Math.max(0, Math.min(to, one.to) - Math.max(from, one.from)),
      );
      return to - from - done.reduce((sum, bytes) => sum + bytes, 0) >= newBytesMin;
    });
    const others = this.#punched.filter(
      (one) => !ranges.some(({ from, to }) => from < one.to && one.from < to),
    );
    this.#punched = [...others, ...ranges];
    return ranges;
  }
}

/** Without support by `fallocate` or the file system, the file keeps its space. */
function punch(path: string, { from, to }: Range): Promise<void> {
  const start = from + ((blockBytes - (from % blockBytes)) % blockBytes);
  const length = to - (to % blockBytes) - start;
  if (length <= 0 || process.platform !== "linux") return Promise.resolve();
  return new Promise((resolve) => {
    const range = ["--punch-hole", "--offset", String(start), "--length", String(length), path];
    execFile("fallocate", range, { timeout: 30_000 }, () => resolve());
  });
}
