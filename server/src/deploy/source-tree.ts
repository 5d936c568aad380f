// The listing of a repository's tree, read before a single file is written: how much it holds, and what in it needs
// care (submodules, links, names that are no text). Pure: bytes in, findings out.

/** What one folder of a repository holds. Names are relative to that folder. */
export type TreeListing = {
  readonly files: number;
  readonly bytes: number;
  readonly submodules: readonly string[];
  readonly links: readonly string[];
  readonly attributeFiles: readonly string[];
  /** Files small enough to be LFS pointers. */
  readonly smallFiles: readonly string[];
};

export type TreeLimits = { readonly filesMax: number; readonly bytesMax: number };

const nameBytesMax = 4096;
/** A pointer of Git LFS has about 130 bytes. */
const pointerBytes = { least: 100, most: 250 };

/** Reads `git ls-tree -r -l -z` as it comes, so that a tree of millions of entries is given up on early. */
export class TreeReader {
  readonly #limits: TreeLimits;
  #rest: Buffer = Buffer.alloc(0);
  #refusal: string | null = null;
  #files = 0;
  #bytes = 0;
  readonly #submodules: string[] = [];
  readonly #links: string[] = [];
  readonly #attributeFiles: string[] = [];
  readonly #smallFiles: string[] = [];

  constructor(limits: TreeLimits) {
    this.#limits = limits;
  }

  /** Takes the next bytes; false when the tree is refused and no more need be read. */
  push(chunk: Buffer): boolean {
    let rest = Buffer.concat([this.#rest, chunk]);
    for (let end = rest.indexOf(0); end >= 0 && this.#refusal === null; end = rest.indexOf(0)) {
      this.#entry(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
    }
    this.#rest = rest;
    if (rest.length > nameBytesMax + 100) this.#refusal ??= "it holds a file whose path is longer than 4096 bytes";
    return this.#refusal === null;
  }

  /** What was found; `reason` continues the sentence "The repository cannot be used: …". */
  result(): { readonly ok: true; readonly value: TreeListing } | { readonly ok: false; readonly reason: string } {
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

  /** `<mode> <type> <object> <size>\t<name>`; the size of a submodule is `-`. */
  #entry(bytes: Buffer): void {
    const tab = bytes.indexOf(9);
    const [mode, type, , size] = bytes.subarray(0, tab).toString("latin1").split(/ +/);
    const name = decode(bytes.subarray(tab + 1));
    if (name === null) {
      this.#refusal = "it holds a file whose name is not valid UTF-8";
      return;
    }
    this.#files += 1;
    this.#bytes += Number(size) || 0;
    if (this.#files > this.#limits.filesMax) this.#refusal = `it holds more than ${this.#limits.filesMax} files`;
    if (this.#bytes > this.#limits.bytesMax) {
      this.#refusal = `its files hold more than ${Math.round(this.#limits.bytesMax / 1_000_000)} MB (SLIPWAY_GIT_SIZE_MB)`;
    }
    if (type === "commit") this.#submodules.push(name);
    else if (mode === "120000") this.#links.push(name);
    else if (/(^|\/)\.gitattributes$/.test(name)) this.#attributeFiles.push(name);
    else if (Number(size) >= pointerBytes.least && Number(size) <= pointerBytes.most) this.#smallFiles.push(name);
  }
}

function decode(bytes: Buffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
