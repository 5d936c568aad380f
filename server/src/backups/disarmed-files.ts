// Makes the files of an unpacked backup harmless. A forged backup could give apps programs that run
// with the rights of the programs' owner, such as root, and devices of the machine.
import { chmod, lstat, opendir, rm } from "node:fs/promises";
import { join } from "node:path";

/** The bits setuid and setgid. */
const ownersRights = 0o6000;

/** Changes the files below the folder. No other user must be able to reach the folder yet. */
export async function disarmFiles(folder: string, signal: AbortSignal): Promise<void> {
  for await (const entry of await opendir(folder)) {
    signal.throwIfAborted();
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await disarmFiles(path, signal);
    else if (entry.isFile()) await takeRights(path);
    else if (entry.isBlockDevice() || entry.isCharacterDevice()) await rm(path);
  }
}

/**
 * Removes both bits from a file. Folders keep these bits: on a folder, setgid gives no rights, but
 * says which group new files in the folder have.
 */
async function takeRights(file: string): Promise<void> {
  const { mode } = await lstat(file);
  // Bits above the lowest twelve say what kind of file it is, and are not for `chmod`.
  if ((mode & ownersRights) !== 0) await chmod(file, mode & ~ownersRights & 0o7777);
}
