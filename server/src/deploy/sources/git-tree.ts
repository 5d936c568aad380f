// Reads the listing of a repository's tree before any file is written: how much it contains, and
// what needs care (submodules, links, names that are not text). Also counts folders: a tree without
// files, in which each folder has the same subfolder ten times, ten levels deep, is small to send
// and would keep git busy almost endlessly. Pure: bytes in, findings out.
import { posix } from "node:path";

/**
 * A submodule: `path` is its path in the folder, `origin` its path in the repository whose
 * `.gitmodules` has its address.
 */
export type Submodule = { readonly path: string; readonly origin: string; readonly commit: string };

/** The contents of one folder of a repository. Names are relative to that folder. */
export type TreeListing = {
  readonly files: number;
  readonly bytes: number;
  readonly submodules: readonly Submodule[];
  readonly links: readonly string[];
  /** Attribute files that are small enough to read. */
  readonly attributeFiles: readonly string[];
  /** Files that have the size of a pointer of Git LFS. */
  readonly smallFiles: readonly string[];
};

/** `filesMax` applies to files and to folders, separately. */
export type TreeLimits = {
  readonly filesMax: number;
  readonly bytesMax: number;
  /** True for limits that are reduced by the other files of the app. */
  readonly isRest?: boolean;
};

/** Half of the system's limit for a whole path, since the app's folder is below other folders. */
const pathBytesMax = 2048;
/** The limit of file systems for the name of one file or folder. */
const nameBytesMax = 255;
/** The maximum for all paths, which are kept in memory: 200 000 files with 300 bytes each. */
const listingBytesMax = 60_000_000;
/** The maximum number of links. Each link is resolved before the app is built. */
const linksMax = 10_000;
/** Larger attribute files are left out of the listing, since all listed ones are read. */
const attributeBytesMax = 100_000;
/** The maximum number of attribute files in a listing; further ones are left out. */
const attributeFilesMax = 1000;
const tooLongPath = `it contains a path that is longer than ${pathBytesMax} bytes`;
/** A pointer of Git LFS has about 130 bytes. */
const pointerBytes = { min: 100, max: 250 };

/**
 * Parses the output of `git ls-tree -r -t -l -z` as a stream, so that it can refuse a tree of
 * millions of entries early.
 */
export class TreeReader {
  readonly #limits: TreeLimits;
  #rest: Buffer = Buffer.alloc(0);
  #refusal: string | null = null;
  #files = 0;
  #folders = 0;
  #bytes = 0;
  #listingBytes = 0;
  readonly #submodules: Submodule[] = [];
  readonly #links: string[] = [];
  readonly #attributeFiles: string[] = [];
  readonly #smallFiles: string[] = [];

  constructor(limits: TreeLimits) {
    this.#limits = limits;
  }

  /** Parses the next bytes; false when the tree is refused and reading can stop. */
  push(chunk: Buffer): boolean {
    // A zero byte ends each entry.
    let rest = Buffer.concat([this.#rest, chunk]);
    for (let end = rest.indexOf(0); end >= 0 && this.#refusal === null; end = rest.indexOf(0)) {
      this.#entry(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
    }
    this.#rest = rest;
    // What an entry has before its path is shorter than 100 bytes.
    if (rest.length > pathBytesMax + 100) this.#refusal ??= tooLongPath;
    return this.#refusal === null;
  }

  /** The findings; `reason` completes the sentence "The repository cannot be deployed: …". */
  result():
    | { readonly ok: true; readonly value: TreeListing }
    | { readonly ok: false; readonly reason: string } {
    if (this.#refusal !== null) return { ok: false, reason: this.#refusal };
    return {
      ok: true,
      value: {
        files: this.#files,
        bytes: this.#bytes,
        submodules: this.#submodules,
        links: this.#links,
        attributeFiles: this.#attributeFiles,
        smallFiles: this.#smallFiles,
      },
    };
  }

  /**
   * Counts one entry, `<mode> <type> <object> <size>\t<name>`. The size of folders and submodules
   * is `-`, which counts as 0.
   */
  #entry(bytes: Buffer): void {
    // The byte 9 is a tab.
    const tab = bytes.indexOf(9);
    const [mode, type, commit = "", sizeText] = bytes
      .subarray(0, tab)
      .toString("latin1")
      .split(/ +/);
    const path = bytes.subarray(tab + 1);
    const name = decode(path);
    if (name === null) {
      this.#refusal = "it contains a file whose name is not valid UTF-8";
      return;
    }
    const size = Number(sizeText) || 0;
    if (type === "tree") this.#folders += 1;
    else this.#files += 1;
    this.#bytes += size;
    this.#listingBytes += path.length;
    if (type === "commit") this.#submodules.push({ path: name, origin: name, commit });
    // 120000 is the mode of symbolic links.
    else if (mode === "120000") this.#links.push(name);
    else if (/(^|\/)\.gitattributes$/.test(name)) this.#addAttributes(name, size);
    else if (size >= pointerBytes.min && size <= pointerBytes.max) this.#smallFiles.push(name);
    this.#refusal = this.#refusalOf(path);
  }

  #addAttributes(name: string, size: number): void {
    if (size <= attributeBytesMax && this.#attributeFiles.length < attributeFilesMax)
      this.#attributeFiles.push(name);
  }

  #refusalOf(path: Buffer): string | null {
    const { filesMax, bytesMax } = this.#limits;
    if (path.length > pathBytesMax) return tooLongPath;
    // The last name begins after the last "/" (byte 47).
    if (path.length - path.lastIndexOf(47) - 1 > nameBytesMax) {
      return `it contains a file or folder whose name is longer than ${nameBytesMax} bytes`;
    }
    if (this.#files > filesMax) return this.#moreThan(`${filesMax} files`);
    if (this.#folders > filesMax) return this.#moreThan(`${filesMax} folders`);
    if (this.#links.length > linksMax) return `it contains more than ${linksMax} symbolic links`;
    if (this.#listingBytes > listingBytesMax) return "the paths of its files are too long in total";
    if (this.#bytes <= bytesMax) return null;
    const max = this.#bound(`${Math.round(bytesMax / 1_000_000)} MB`);
    return `its files are larger than ${max} in total (SLIPWAY_GIT_SIZE_MB)`;
  }

  #moreThan(max: string): string {
    return `it contains more than ${this.#bound(max)}`;
  }

  #bound(max: string): string {
    return this.#limits.isRest === true ? `the ${max} that the rest of the app leaves` : max;
  }
}

/**
 * Joins two listings into one. The folder or the file that `added` lists was put at the path `at`.
 * `origin` stays, since it is not a path in the app's folder.
 */
export function joined(listing: TreeListing, added: TreeListing, at: string): TreeListing {
  const below = (names: readonly string[]): string[] => names.map((name) => posix.join(at, name));
  return {
    files: listing.files + added.files,
    bytes: listing.bytes + added.bytes,
    submodules: [
      ...listing.submodules,
      ...added.submodules.map((submodule) => ({
        ...submodule,
        path: posix.join(at, submodule.path),
      })),
    ],
    links: [...listing.links, ...below(added.links)],
    attributeFiles: [...listing.attributeFiles, ...below(added.attributeFiles)],
    smallFiles: [...listing.smallFiles, ...below(added.smallFiles)],
  };
}

/** The text; null: the bytes are not UTF-8. */
function decode(bytes: Buffer): string | null {
  try {
    // With `ignoreBOM`, a byte order mark stays in the text: it is part of the file's name.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
