// Lets only one platform work in a data folder. The lock is one that the kernel keeps (SQLite's own file lock on an
// empty file), so it ends with the process that holds it, however that ends: it cannot become stale, and a reused
// process id cannot fool it. The file `slipway.pid` beside it is only for the message.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartRefused } from "./start-refused.ts";

/** A held lock; `release` may be called twice. */
export type FolderLock = {
  readonly folder: string;
  release(): void;
};

/** SQLite's result code for "somebody else holds the lock". */
const sqliteBusy = 5;

/** Takes the lock of the folder that holds `lockFile`, made (0700) when absent. Throws `StartRefused` naming the process that has it. */
export function lockFolder(lockFile: string): FolderLock {
  const folder = dirname(lockFile);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const pidFile = join(folder, "slipway.pid");
  const database = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    database.exec("begin immediate");
  } catch (error) {
    database.close();
    throw isBusy(error) ? refusal(folder, pidFile) : error;
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  let held = true;
  return {
    folder,
    release() {
      if (!held) return;
      held = false;
      rmSync(pidFile, { force: true });
      database.close();
    },
  };
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === sqliteBusy;
}

function refusal(folder: string, pidFile: string): StartRefused {
  const pid = readPid(pidFile);
  const who = pid === null ? "Another platform" : `Another platform (process ${pid})`;
  return new StartRefused(
    `${who} already works in the data folder ${folder}; stop it, or give this one another folder with SLIPWAY_DATA_DIR.`,
  );
}

function readPid(pidFile: string): string | null {
  try {
    return /^\d+/.exec(readFileSync(pidFile, "utf8"))?.[0] ?? null;
  } catch {
    // The holder has taken the lock and is about to write the file.
    return null;
  }
}
