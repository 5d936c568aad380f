// Finds the folders of a repository that have a settings file, in the listing of its tree. Pure:
// bytes in, names out. It stops early, since even a small repository can list one folder any
// number of times, under different paths.
import { tomlNames } from "#deploy/app-files.ts";

/** The maximum number of folders in a result: nobody chooses from more. */
const foldersMax = 200;
/** The maximum number of files and folders in a listing, as many as a build takes. */
const entriesMax = 200_000;
/** A longer entry ends the reading. 4096 bytes is the system's limit for a path. */
const entryBytesMax = 4096;

/** Reads the output of `git ls-tree -r -t -z` as it arrives. */
export class SettingsFolders {
  readonly #folders = new Set<string>();
  #rest: Buffer = Buffer.alloc(0);
  #entries = 0;
  #hasMore = false;

  /** Reads the next bytes; false when it has seen enough. */
  push(chunk: Buffer): boolean {
    // A zero byte ends each entry.
    let rest = Buffer.concat([this.#rest, chunk]);
    for (let end = rest.indexOf(0); end >= 0 && !this.#hasMore; end = rest.indexOf(0)) {
      this.#read(rest.toString("utf8", 0, end));
      rest = rest.subarray(end + 1);
    }
    this.#rest = rest;
    if (rest.length > entryBytesMax) this.#hasMore = true;
    return !this.#hasMore;
  }

  /** The folders in the order of the tree; the root is "". `hasMore`: there may be others. */
  result(): { readonly folders: readonly string[]; readonly hasMore: boolean } {
    return { folders: [...this.#folders], hasMore: this.#hasMore };
  }

  /**
   * Reads an entry, `<mode> <type> <object>\t<path>`. The modes of regular files begin with 100.
   * Bytes of a path that are no text were replaced by U+FFFD; the folder of such a path is left
   * out, since its name is not known.
   */
  #read(entry: string): void {
    const path = /^100\d{3} blob [0-9a-f]+\t(.+)$/s.exec(entry)?.[1] ?? "";
    // A file in the root has no slash, so `at` is -1 then, and its folder is "".
    const at = path.lastIndexOf("/");
    const fileName = path.slice(at + 1);
    const isSettings = tomlNames.some((name) => name === fileName) && !path.includes("\ufffd");
    this.#entries += 1;
    const isOneTooMany = isSettings && this.#folders.size >= foldersMax;
    if (this.#entries > entriesMax || isOneTooMany) this.#hasMore = true;
    else if (isSettings) this.#folders.add(path.slice(0, Math.max(at, 0)));
  }
}
