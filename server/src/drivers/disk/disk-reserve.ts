// A file that only occupies space. When the disk is full, the platform deletes it, so that the
// database and the platform's own files can still grow, and recreates it once there is enough
// space. Without the file, an app could take all free space in one step, and no other way reserves
// space on every file system.
import { execFile } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";

/** How long `fallocate` may take to create the file. */
const makeTimeoutMs = 60_000;
/** The unit in which the system counts the blocks of a file. */
const blockBytes = 512;

/** The reserve of one data folder; only the platform that holds the folder's lock may use it. */
export class DiskReserve {
  readonly #file: string;

  constructor(dataDir: string) {
    this.#file = join(dataDir, "disk.reserve");
  }

  /** The bytes that the file occupies now; 0 when there is no file. */
  heldBytes(): number {
    const stats = statSync(this.#file, { throwIfNoEntry: false });
    return stats === undefined ? 0 : stats.blocks * blockBytes;
  }

  release(): void {
    rmSync(this.#file, { force: true });
  }

  /**
   * Creates the file. Leaves none when the file system has no space or does not support
   * `fallocate`.
   */
  async make(bytes: number): Promise<void> {
    const options = { timeout: makeTimeoutMs };
    const isMade = await new Promise<boolean>((resolve) => {
      execFile("fallocate", ["--length", String(bytes), this.#file], options, (error) =>
        resolve(error === null),
      );
    });
    if (!isMade) this.release();
  }
}

/** The default space kept free for the platform: 5 % of the disk, at most 2 GB. */
export function defaultReserveBytes(totalBytes: number): number {
  return Math.min(2e9, Math.round(totalBytes * 0.05));
}
