// Lets only one platform work in a data folder. The kernel keeps the lock (SQLite's own file lock
// on an empty file), so it ends with its process in every case: it cannot become stale, and a
// reused process id cannot fool it. The file `slipway.pid` beside it is only for the message.
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

/** A held lock; a second call of `release` does nothing. */
export type FolderLock = {
  readonly folder: string;
  /**
   * The same for every process on this folder. Only one runs at a time, so leases of an earlier one
   * under this id are free.
   */
  readonly instanceId: string;
  /**
   * The installation that last used the folder. Its id is in the database; the copy in the folder
   * is for tools that work without one.
   */
  readonly installationId: string;
  /** Writes the copy. */
  keepInstallation(installationId: string): void;
  release(): void;
};

/** Another platform uses the folder; `pid` is null while that is only beginning. */
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
 * Locks the folder of `lockFile`, and creates it (0700) if needed. Throws `CannotStart` with the
 * obstacle.
 */
export function lockFolder(lockFile: string): FolderLock {
  const folder = dirname(lockFile);
  try {
    makeFolder(folder);
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    const message = `The data folder ${folder} cannot be used: ${error.message}. Set SLIPWAY_DATA_DIR to a folder that this user may write to.`;
    throw new CannotStart(message, { cause: error });
  }
  const pidFile = join(folder, "slipway.pid");
  const database = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    database.exec("begin immediate");
  } catch (error) {
    database.close();
    throw isBusy(error) ? new FolderInUse(folder, readPid(pidFile)) : error;
  }
  unlessDiskFull(() => writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 }));
  let held = true;
  const instanceId = readInstanceId(join(folder, "instance.id"));
  const installationFile = join(folder, "installation.id");
  return {
    folder,
    instanceId,
    // Folders of earlier versions, in which both were one, have no copy.
    installationId: readId(installationFile) ?? instanceId,
    keepInstallation(installationId) {
      if (readId(installationFile) !== installationId)
        unlessDiskFull(() => writeFileSafely(installationFile, `${installationId}\n`));
    },
    release() {
      if (!held) return;
      held = false;
      rmSync(pidFile, { force: true });
      database.close();
    },
  };
}

/**
 * Creates one folder at a time: where it is impossible (below /proc), Node's recursive mkdir never
 * ends.
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

/** For files without which a platform can start: a later step may free space on a full disk. */
function unlessDiskFull(write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}

/** Null: there is none. */
function readId(file: string): string | null {
  const kept = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  return kept === "" ? null : kept;
}

/** Created once. A lost file means a new instance: leases of the old one run out. */
function readInstanceId(file: string): string {
  const kept = readId(file);
  if (kept !== null) return kept;
  const made = randomUUID();
  writeFileSafely(file, `${made}\n`);
  return made;
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === sqliteBusy;
}

function readPid(pidFile: string): number | null {
  try {
    return Number(/^\d+/.exec(readFileSync(pidFile, "utf8"))?.[0] ?? 0) || null;
  } catch {
    // The holder has the lock and is about to write the file.
    return null;
  }
}
