// Takes from unpacked files what a backup that somebody has made up could give to apps: programs
// that run with the rights of their owner, such as root, and devices of the machine.
import { chmod, lstat, opendir, rm } from "node:fs/promises";
import { join } from "node:path";

/** The bits setuid and setgid. */
const ownersRights = 0o6000;

/** Changes the files below the folder, which nobody else may be able to reach yet. */
export async function disarmFiles(folder: string, signal: AbortSignal): Promise<void> {
  for await (const entry of await opendir(folder)) {
    signal.throwIfAborted();
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await disarmFiles(path, signal);
    else if (entry.isFile()) await takeRights(path);
    else if (entry.isBlockDevice() || entry.isCharacterDevice()) await rm(path);
  }
}

/** On a folder, setgid gives no rights: it says whose group new files in it have. */
async function takeRights(file: string): Promise<void> {
  const { mode } = await lstat(file);
  if ((mode & ownersRights) !== 0) await chmod(file, mode & ~ownersRights & 0o7777);
}
