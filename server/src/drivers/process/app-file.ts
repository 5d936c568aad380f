// Reads the beginning of a file of an app whose replica has exited, by the path that the app named.
// Follows no link out of the app's folders and waits for no pipe.
import { constants } from "node:fs";
import { open, realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { codeAlias } from "./sandbox-view.ts";
import { isBelow } from "./system-mounts.ts";

/**
 * Reads at most `bytesMax` bytes. `folders`: the folders with the app's files; each hides the files
 * of the next ones. Null when no folder has a plain file at the path.
 */
export async function beginOfAppFile(
  folders: readonly string[],
  path: string,
  bytesMax: number,
): Promise<Buffer | null> {
  // In the sandbox, `codeAlias` leads to the app's files, so the rest is a path within `folders`.
  const relative = path.startsWith(`${codeAlias}/`) ? path.slice(codeAlias.length + 1) : path;
  for (const folder of folders) {
    const begin = await beginIn(folder, relative, bytesMax).catch(() => null);
    if (begin !== null) return begin;
  }
  return null;
}

async function beginIn(folder: string, path: string, bytesMax: number): Promise<Buffer | null> {
  const real = await realpath(resolve(folder, path));
  if (!isBelow(real, await realpath(folder))) return null;
  await using file = await open(
    real,
    constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW,
  );
  if (!(await file.stat()).isFile()) return null;
  const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(bytesMax), position: 0 });
  return buffer.subarray(0, bytesRead);
}
