// The lines of an audit log that was exported as NDJSON, and what is hashed and signed of them. The first line is the
// header; where old entries were removed a stub follows; then entries in the order of their numbers, each checkpoint right
// behind the entry that it is of. Each line is what `lineText` makes of it, to the byte, and ends in one "\n".
import { createHash } from "node:crypto";
import { canonicalText, type JsonObject } from "#audit/chain/canonical.ts";
import type { ShownEntry } from "#audit/shown-entry.ts";

/** What this version writes; another one is not read. */
export const exportVersion = 1;

/** A link of a chain: entries of a project are numbered from 1 on, without gaps. `hash`: 64 lower-case hexadecimal digits. */
export type ChainPosition = { readonly number: number; readonly hash: string };

/** Before the first entry of a chain. */
export const chainBegin: ChainPosition = { number: 0, hash: "0".repeat(64) };

/** What narrows an export; null: it does not. */
export type ExportFilter = {
  readonly from: string | null;
  readonly to: string | null;
  readonly action: string | null;
  readonly actor: string | null;
  readonly outcome: string | null;
};

/**
 * The first line. The file holds the entries after `after` up to `through`, all of them where `filter` is null: only then
 * can it be verified, and `through` is then the place of a checkpoint, the last line. `after` is the beginning of the chain
 * or the place of the stub. Null as `project`: of no project.
 */
export type ExportHeader = {
  readonly kind: "slipway-audit-export";
  readonly version: typeof exportVersion;
  readonly project: string | null;
  /** RFC 3339, UTC. */
  readonly exportedAt: string;
  readonly filter: ExportFilter | null;
  readonly after: ChainPosition;
  readonly through: ChainPosition;
  /** Over `signedText` of this line. */
  readonly jws: string;
};

/** The second line, where retention has removed the entries up to `number`, whose hash was `hash`. */
export type StubLine = ChainPosition & {
  readonly kind: "stub";
  /** All that was removed is older. */
  readonly before: string;
  readonly at: string;
  readonly jws: string;
};

/** One entry, exactly as the API shows it. */
export type EntryLine = ChainPosition & { readonly kind: "entry"; readonly entry: ShownEntry };

/** What the platform signed when the chain had reached `number`. `previous`: the number of the checkpoint before it, or 0. */
export type CheckpointLine = ChainPosition & {
  readonly kind: "checkpoint";
  readonly previous: number;
  readonly at: string;
  readonly jws: string;
};

/** Any line that is signed. */
export type SignedLine = ExportHeader | StubLine | CheckpointLine;
export type ExportLine = SignedLine | EntryLine;

/** The line without its end. Make it with the functions below: they put its members into their order. */
export function lineText(line: ExportLine): string {
  return JSON.stringify(line);
}

/** The header in its form. */
export function exportHeader(given: Omit<ExportHeader, "kind" | "version">): ExportHeader {
  const { project, exportedAt, after, through, jws } = given;
  const filter = given.filter === null ? null : filterOf(given.filter);
  const places = { after: placeOf(after), through: placeOf(through) };
  return { kind: "slipway-audit-export", version: exportVersion, project, exportedAt, filter, ...places, jws };
}

/** A stub's line in its form. */
export function stubLine({ number, hash, before, at, jws }: Omit<StubLine, "kind">): StubLine {
  return { kind: "stub", number, hash, before, at, jws };
}

/** An entry's line in its form. */
export function entryLine({ number, hash, entry }: Omit<EntryLine, "kind">): EntryLine {
  return { kind: "entry", number, hash, entry };
}

/** A checkpoint's line in its form. */
export function checkpointLine({ number, hash, previous, at, jws }: Omit<CheckpointLine, "kind">): CheckpointLine {
  return { kind: "checkpoint", number, hash, previous, at, jws };
}

/** What of a line is signed: all but the signature, and the project, which of the others the header names. */
export function signedText(line: Unsigned<SignedLine>, project: string | null): string {
  return canonicalText({ ...(line as unknown as JsonObject), project });
}

/** A line that is yet to be signed. */
export type Unsigned<Line extends SignedLine> = Line extends SignedLine ? Omit<Line, "jws"> : never;

/** The bytes that are hashed for an entry, behind those of the hash before it. */
export function linkText(link: { number: number; project: string | null; entry: ShownEntry }): string {
  return canonicalText({ entry: link.entry as unknown as JsonObject, number: link.number, project: link.project });
}

/** SHA-256 over the 32 bytes of the hash before and the bytes of `linkText`. */
export function linkHash(previousHash: string, text: string): string {
  return createHash("sha256").update(Buffer.from(previousHash, "hex")).update(text).digest("hex");
}

function filterOf({ from, to, action, actor, outcome }: ExportFilter): ExportFilter {
  return { from, to, action, actor, outcome };
}

function placeOf({ number, hash }: ChainPosition): ChainPosition {
  return { number, hash };
}
