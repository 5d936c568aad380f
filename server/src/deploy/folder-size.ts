// How much a folder holds on disk, measured while others write to it.
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

/** Bytes of all files below `folder`, links not followed; stops early once it is above `enough`. What vanishes meanwhile counts nothing. */
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
