// Measures the size of a folder on disk while others write to it.
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

/**
 * Bytes of all files below `folder`, without following links; stops early once the sum exceeds
 * `enough`. Ignores files that disappear meanwhile.
 */
export async function folderBytes(folder: string, enough: number): Promise<number> {
  let bytes = 0;
  const open = [folder];
  for (let next = open.pop(); next !== undefined && bytes <= enough; next = open.pop()) {
    const entries = await readdir(next, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const path = join(next, entry.name);
      if (entry.isDirectory()) open.push(path);
      else
        bytes += await lstat(path).then(
          (stats) => stats.size,
          () => 0,
        );
    }
  }
  return bytes;
}
