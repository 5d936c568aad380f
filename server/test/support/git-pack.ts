// Git packs made by hand, for repositories that git itself would never create.
import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";

export type Kind = "commit" | "tree" | "blob";

/** An entry of a tree: mode, name and the id of the object. */
export type TreeEntry = readonly [mode: string, name: string, id: Buffer];

const numbers = { commit: 1, tree: 2, blob: 3 } as const;
const differenceNumber = 7;

/** The id of an object. */
function idOf(kind: Kind, content: Buffer): Buffer {
  return createHash("sha1").update(`${kind} ${content.length}\0`).update(content).digest();
}

/** The size encoding of packs: seven bits per byte, lowest first. */
export function sizeBytes(size: number): number[] {
  return size < 128 ? [size] : [(size & 127) | 128, ...sizeBytes(Math.floor(size / 128))];
}

/** A repository under construction. Objects are added by `add`, or raw by `addEntry`. */
export class Pack {
  readonly #entries: Buffer[] = [];

  /** Adds an object and returns its id. */
  add(kind: Kind, content: Buffer): Buffer {
    this.addEntry(numbers[kind], content.length, deflateSync(content));
    return idOf(kind, content);
  }

  /** `entries` in git's sort order. */
  addTree(entries: readonly TreeEntry[]): Buffer {
    const parts = entries.flatMap(([mode, name, id]) => [Buffer.from(`${mode} ${name}\0`), id]);
    return this.add("tree", Buffer.concat(parts));
  }

  /** A commit of the tree; returns its id in hexadecimal digits. */
  addCommit(tree: Buffer): string {
    const who = "a <a@example.com> 1 +0000";
    const text = `tree ${tree.toString("hex")}\nauthor ${who}\ncommitter ${who}\n\nx\n`;
    return this.add("commit", Buffer.from(text)).toString("hex");
  }

  /** An object as a delta of another one. */
  addDifference(base: Buffer, instructions: Buffer): void {
    this.addEntry(
      differenceNumber,
      instructions.length,
      Buffer.concat([base, deflateSync(instructions)]),
    );
  }

  /** `size`: the unpacked size that it claims. */
  addEntry(number: number, size: number, packed: Buffer): void {
    const first = (number << 4) | (size & 15);
    const rest = Math.floor(size / 16);
    const head = rest === 0 ? [first] : [first | 128, ...sizeBytes(rest)];
    this.#entries.push(Buffer.concat([Buffer.from(head), packed]));
  }

  /** `count`: the number of objects that it claims to contain. */
  bytes(count = this.#entries.length): Buffer {
    const head = Buffer.from([...Buffer.from("PACK"), 0, 0, 0, 2, 0, 0, 0, 0]);
    head.writeUInt32BE(count, 8);
    const content = Buffer.concat([head, ...this.#entries]);
    return Buffer.concat([content, createHash("sha1").update(content).digest()]);
  }
}
