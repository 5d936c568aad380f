// Measures the size of a folder on disk while others write to it.
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

/**
 * The bytes of all files below `folder`, without following links. Stops as soon as the sum is more
 * than `enough`. Ignores files that disappear meanwhile.
 */
export async function folderBytes(folder: string, enough: number): Promise<number> {
  let bytes = 0;
  const unread = [folder];
  for (;;) {
    const next = unread.pop();
    if (next === undefined || bytes > enough) return bytes;
    const entries = await readdir(next, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const path = join(next, entry.name);
      if (entry.isDirectory()) unread.push(path);
      else bytes += await fileBytes(path);
    }
  }
}

async function fileBytes(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => null);
  return stats?.size ?? 0;
}
