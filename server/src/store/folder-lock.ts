// Lets only one platform work in a data folder. The kernel keeps the lock, which is SQLite's lock
// on an empty file, so it always ends with its process: it cannot become stale, and a reused
// process id does not matter. The file `slipway.pid` beside it only serves the error message.
import { randomUUID } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { CannotStart } from "#lib/cannot-start.ts";
import { isDiskFull } from "#lib/disk-full.ts";
import { writeFileSafely } from "#lib/write-file.ts";

/** The lock while this process holds it; a second call of `release` does nothing. */
export type FolderLock = {
  readonly folder: string;
  /**
   * The same for every process that works in this folder. Since there is only one at a time, this
   * process may take over leases that an earlier process had under this id.
   */
  readonly instanceId: string;
  /**
   * The installation that last used the folder. Its id is in the database; the copy in the folder
   * is for tools that work without a database.
   */
  readonly installationId: string;
  /** Writes a copy of the installation's id into the folder. */
  keepInstallation(installationId: string): void;
  release(): void;
};

/** Another platform uses the folder; `pid` is null until that platform has written its id. */
export class FolderInUse extends CannotStart {
  readonly pid: number | null;

  constructor(folder: string, pid: number | null) {
    const who = pid === null ? "Another platform" : `Another platform (process ${pid})`;
    const remedy = "stop it (npm run stop), or give this one another folder with SLIPWAY_DATA_DIR";
    super(`${who} is already using the data folder ${folder}; ${remedy}.`);
    this.pid = pid;
  }
}

/** SQLite's result code for a lock that another process holds. */
const sqliteBusy = 5;

/**
 * Locks the folder of `lockFile`, and creates the folder (0700) if needed. Throws `CannotStart`,
 * which names the obstacle.
 */
export function lockFolder(lockFile: string): FolderLock {
  const folder = dirname(lockFile);
  try {
    makeFolder(folder);
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    // Only errors of system calls have a code; anything else is a bug.
    if (!(error instanceof Error && "code" in error)) throw error;
    const message = `The data folder ${folder} cannot be used: ${error.message}. Set SLIPWAY_DATA_DIR to a folder that this user may write to.`;
    throw new CannotStart(message, { cause: error });
  }
  const pidFile = join(folder, "slipway.pid");
  // The timeout 0 makes a held lock fail at once, instead of waiting for its holder.
  const database = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    database.exec("begin immediate");
  } catch (error) {
    database.close();
    throw isBusy(error) ? new FolderInUse(folder, readPid(pidFile)) : error;
  }
  unlessDiskFull(() => writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 }));
  let isHeld = true;
  const instanceId = readInstanceId(join(folder, "instance.id"));
  const installationFile = join(folder, "installation.id");
  return {
    folder,
    instanceId,
    // In earlier versions both ids were the same, and the folder had no copy.
    installationId: readId(installationFile) ?? instanceId,
    keepInstallation(installationId) {
      if (readId(installationFile) !== installationId)
        unlessDiskFull(() => writeFileSafely(installationFile, `${installationId}\n`));
    },
    release() {
      if (!isHeld) return;
      isHeld = false;
      rmSync(pidFile, { force: true });
      database.close();
    },
  };
}

/**
 * Creates one folder at a time: where no folder can be created (below /proc), Node's recursive
 * mkdir never ends.
 */
function makeFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another start may have just created it.
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw error;
  }
}

/**
 * Writes a file that no start of the platform needs. A full disk is no error, since a later step of
 * the start may free space.
 */
function unlessDiskFull(write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}

/** Null: the file does not exist, or is empty. */
function readId(file: string): string | null {
  const text = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  return text === "" ? null : text;
}

/** Creates the id if needed. After a loss of the file, leases under the old id run out. */
function readInstanceId(file: string): string {
  const existing = readId(file);
  if (existing !== null) return existing;
  const created = randomUUID();
  writeFileSafely(file, `${created}\n`);
  return created;
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === sqliteBusy;
}

function readPid(pidFile: string): number | null {
  try {
    // The file may still be empty, which counts as 0.
    const [digits = "0"] = /^\d+/.exec(readFileSync(pidFile, "utf8")) ?? [];
    const pid = Number(digits);
    return pid === 0 ? null : pid;
  } catch {
    // The holder has the lock and is about to write the file.
    return null;
  }
}
