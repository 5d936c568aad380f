// Reads an exported audit log of any size line by line. A line only counts if it is byte for byte
// what an export contains; anything else was altered.
import { isUtf8 } from "node:buffer";
import { compareNames, type JsonValue } from "@slipway/server/src/audit/chain/canonical.ts";
import {
  checkpointLine,
  entryLine,
  exportHeader,
  lineText,
  stubLine,
  type CheckpointLine,
  type EntryLine,
  type ExportHeader,
  type ExportLine,
  type StubLine,
} from "@slipway/server/src/audit/export/export-format.ts";
import type { ShownEntry } from "@slipway/server/src/audit/shown-entry.ts";

/**
 * `text` is null when the bytes are not valid text or exceed any line's length. `isEnded`: a line
 * end follows.
 */
export type TextLine = {
  readonly line: number;
  readonly text: string | null;
  readonly isEnded: boolean;
};

/** The longest entry has some 250,000 bytes. */
const lineBytesMax = 4_000_000;
const endOfLine = 0x0a;

/** The lines of a byte stream, counted from 1. */
export class LineReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #chunk: Buffer = Buffer.alloc(0);
  #begun: Buffer[] = [];
  #begunBytes = 0;
  #line = 0;

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#chunks = bytes[Symbol.asyncIterator]();
  }

  /** The number of the last line. */
  get line(): number {
    return this.#line;
  }

  /** Reads the next line; undefined at the end of the export. */
  async next(): Promise<TextLine | undefined> {
    for (;;) {
      const end = this.#chunk.indexOf(endOfLine);
      if (end !== -1) {
        this.#add(this.#chunk.subarray(0, end));
        this.#chunk = this.#chunk.subarray(end + 1);
        return this.#take(true);
      }
      this.#add(this.#chunk);
      const chunk: IteratorResult<Uint8Array, unknown> = await this.#chunks.next();
      if (chunk.done === true) return this.#begunBytes > 0 ? this.#take(false) : undefined;
      const { buffer, byteOffset, byteLength } = chunk.value;
      this.#chunk = Buffer.from(buffer, byteOffset, byteLength);
    }
  }

  #add(part: Buffer): void {
    this.#begunBytes += part.length;
    if (this.#begunBytes > lineBytesMax) this.#begun = [];
    else if (part.length > 0) this.#begun.push(part);
  }

  #take(isEnded: boolean): TextLine {
    const bytes =
      this.#begun.length === 1 && this.#begun[0] !== undefined
        ? this.#begun[0]
        : Buffer.concat(this.#begun);
    const text = this.#begunBytes <= lineBytesMax && isUtf8(bytes) ? bytes.toString("utf8") : null;
    this.#begun = [];
    this.#begunBytes = 0;
    if (!isEnded) this.#chunk = Buffer.alloc(0);
    return { line: ++this.#line, text, isEnded };
  }
}

/** Parses a line; null: no export contains it. */
export function parseLine(text: string | null): ExportLine | null {
  const value = text === null ? null : parseObject(text);
  if (value === null) return null;
  try {
    const line = rebuild(value);
    return line !== null && lineText(line) === text ? line : null;
  } catch (error) {
    // Nested too deeply.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

type Loose = { readonly [name: string]: unknown };

/** Null for anything but a JSON object. */
export function parseObject(text: string): Loose | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null;
    throw error;
  }
}

/**
 * Rebuilds a line from the value; null for an unknown kind. Members that do not fit show up as a
 * difference in the text.
 */
function rebuild(value: Loose): ExportLine | null {
  switch (value["kind"]) {
    case "slipway-audit-export":
      return "project" in value &&
        isPosition(value["after"]) &&
        isPosition(value["through"]) &&
        (value["filter"] === null || isObject(value["filter"])) &&
        typeof value["jws"] === "string"
        ? exportHeader(value as unknown as ExportHeader)
        : null;
    case "stub":
      return isPosition(value) && typeof value["jws"] === "string"
        ? stubLine(value as unknown as StubLine)
        : null;
    case "checkpoint":
      return isPosition(value) && isCount(value["previous"]) && typeof value["jws"] === "string"
        ? checkpointLine(value as unknown as CheckpointLine)
        : null;
    case "entry":
      return isPosition(value) && isWhole(value["entry"])
        ? rebuildEntry(value as unknown as EntryLine)
        : null;
    default:
      return null;
  }
}

/**
 * Members that may be null. A missing one has the same hash as null, but exports always write it.
 */
const nullable = ["requestId", "address", "userAgent", "changes", "reason"];
const ofThing = ["id", "name"];

/** Checks that all nullable members are present; any other missing member changes the hash. */
function isWhole(entry: unknown): boolean {
  if (!isObject(entry) || !nullable.every((name) => name in entry)) return false;
  const { actor, resource } = entry;
  return [actor, resource].every(
    (thing) => !isObject(thing) || ofThing.every((name) => name in thing),
  );
}

function rebuildEntry({ number, hash, entry }: EntryLine): EntryLine {
  const {
    id,
    timestamp,
    action,
    actor,
    outcome,
    resource,
    requestId,
    address,
    userAgent,
    changes,
    reason,
  } = entry;
  const rebuilt: ShownEntry = {
    id,
    timestamp,
    action,
    actor: { type: actor?.type, id: actor?.id, name: actor?.name },
    outcome,
    resource:
      resource === null ? null : { type: resource?.type, id: resource?.id, name: resource?.name },
    requestId,
    address,
    userAgent,
    changes: changes === null ? null : (inOrder(changes) as ShownEntry["changes"]),
    reason,
  };
  return entryLine({ number, hash, entry: rebuilt });
}

/** Sorts object names in the order in which the database returns them. */
function inOrder(value: JsonValue): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const entries = Object.entries(value as Readonly<Record<string, JsonValue>>);
  entries.sort(([left], [right]) => compareNames(left, right));
  return Object.fromEntries(entries.map(([name, item]) => [name, inOrder(item)]));
}

function isObject(value: unknown): value is Loose {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isPosition(value: unknown): boolean {
  return (
    isObject(value) &&
    isCount(value["number"]) &&
    typeof value["hash"] === "string" &&
    /^[0-9a-f]{64}$/.test(value["hash"])
  );
}
