// A file that only takes room. When the disk is full, it is deleted, so that the database and the platform's
// own files can go on; it is made again once there is enough. No other way keeps room on every file system: an app can take
// all that is free in one step.
import { execFile } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";

const makeTimeoutMs = 60_000;

/** One for a data folder; only the platform that has locked it may use it. */
export class DiskReserve {
  readonly #file: string;

  constructor(dataDir: string) {
    this.#file = join(dataDir, "disk.reserve");
  }

  /** Bytes that it takes now; 0 when there is none. */
  heldBytes(): number {
    const found = statSync(this.#file, { throwIfNoEntry: false });
    return found === undefined ? 0 : found.blocks * 512;
  }

  release(): void {
    rmSync(this.#file, { force: true });
  }

  /** There is none afterwards where the file system cannot do it or has no room. */
  async make(bytes: number): Promise<void> {
    const options = { timeout: makeTimeoutMs };
    const isMade = await new Promise<boolean>((resolve) => {
      execFile("fallocate", ["--length", String(bytes), this.#file], options, (error) => resolve(error === null));
    });
    if (!isMade) this.release();
  }
}

/** What is kept free for the platform unless it is set: 5 % of the disk, at most 2 GB. */
export function defaultReserveBytes(totalBytes: number): number {
  return Math.min(2e9, Math.round(totalBytes * 0.05));
}
