// The lines of an NDJSON export of the audit log, and the texts that are hashed and signed. The
// first line is the header; a stub follows if old entries were removed; then come entries in the
// order of their numbers, each checkpoint directly after its entry. Each line is exactly the output
// of `lineText`, followed by one "\n".
import { createHash } from "node:crypto";
import { canonicalText, type JsonObject } from "#audit/chain/canonical.ts";
import type { ShownEntry } from "#audit/shown-entry.ts";

/** The version of the format that is written, and the only one that can be read. */
export const exportVersion = 1;

/**
 * A link of a chain: a project's entries are numbered from 1, without gaps. `hash`: 64 lower-case
 * hexadecimal digits.
 */
export type ChainPosition = { readonly number: number; readonly hash: string };

/** The position before the first entry of a chain. */
export const chainBegin: ChainPosition = { number: 0, hash: "0".repeat(64) };

/** The filter of an export; null fields do not filter. */
export type ExportFilter = {
  readonly from: string | null;
  readonly to: string | null;
  readonly action: string | null;
  readonly actor: string | null;
  readonly outcome: string | null;
};

/**
 * The first line of an export. The export has entries after the position `after` up to `through`.
 * If `filter` is null, the export has all of them and can be verified, and `through` is the
 * position of the checkpoint in the export's last line. `after` is the beginning of the chain or
 * the position of the stub. `project` is null for entries without a project.
 */
export type ExportHeader = {
  readonly kind: "slipway-audit-export";
  readonly version: typeof exportVersion;
  readonly project: string | null;
  /** The time of the export, as in RFC 3339, in UTC. */
  readonly exportedAt: string;
  readonly filter: ExportFilter | null;
  readonly after: ChainPosition;
  readonly through: ChainPosition;
  /** The signature over `signedText` of this line. */
  readonly jws: string;
};

/**
 * The second line, if retention has removed the entries up to `number`; `hash` is the hash of the
 * last removed entry.
 */
export type StubLine = ChainPosition & {
  readonly kind: "stub";
  /** All removed entries are older than this. */
  readonly before: string;
  /** When the line was signed. */
  readonly at: string;
  readonly jws: string;
};

/** One entry, exactly as the API shows it. */
export type EntryLine = ChainPosition & { readonly kind: "entry"; readonly entry: ShownEntry };

/**
 * A line that the platform signed when the chain had reached `number`. `previous` is the number of
 * the checkpoint before it, or 0.
 */
export type CheckpointLine = ChainPosition & {
  readonly kind: "checkpoint";
  readonly previous: number;
  /** When the line was signed. */
  readonly at: string;
  readonly jws: string;
};

/** Any signed line. */
export type SignedLine = ExportHeader | StubLine | CheckpointLine;
export type ExportLine = SignedLine | EntryLine;

/**
 * The text of a line, without line end. Create lines with the functions below: they set the order
 * of members.
 */
export function lineText(line: ExportLine): string {
  return JSON.stringify(line);
}

/** A header with its members in order. */
export function exportHeader(header: Omit<ExportHeader, "kind" | "version">): ExportHeader {
  const { project, exportedAt, after, through, jws } = header;
  const filter = header.filter === null ? null : filterOf(header.filter);
  return {
    kind: "slipway-audit-export",
    version: exportVersion,
    project,
    exportedAt,
    filter,
    after: positionOf(after),
    through: positionOf(through),
    jws,
  };
}

/** A stub line with its members in order. */
export function stubLine({ number, hash, before, at, jws }: Omit<StubLine, "kind">): StubLine {
  return { kind: "stub", number, hash, before, at, jws };
}

/** An entry line with its members in order. */
export function entryLine({ number, hash, entry }: Omit<EntryLine, "kind">): EntryLine {
  return { kind: "entry", number, hash, entry };
}

/** A checkpoint line with its members in order. */
export function checkpointLine({
  number,
  hash,
  previous,
  at,
  jws,
}: Omit<CheckpointLine, "kind">): CheckpointLine {
  return { kind: "checkpoint", number, hash, previous, at, jws };
}

/**
 * The signed text of a line: everything except the signature, plus the project, which only the
 * header line names itself.
 */
export function signedText(line: Unsigned<SignedLine>, project: string | null): string {
  return canonicalText({ ...(line as unknown as JsonObject), project });
}

/**
 * A line without its signature. The condition is always true; it makes TypeScript apply `Omit` to
 * each kind of line on its own.
 */
export type Unsigned<Line extends SignedLine> = Line extends SignedLine ? Omit<Line, "jws"> : never;

/** The text that is hashed for an entry, together with the previous hash. */
export function linkText(link: {
  number: number;
  project: string | null;
  entry: ShownEntry;
}): string {
  return canonicalText({
    entry: link.entry as unknown as JsonObject,
    number: link.number,
    project: link.project,
  });
}

/** SHA-256 over the 32 bytes of the previous hash and the bytes of `linkText`. */
export function linkHash(previousHash: string, text: string): string {
  return createHash("sha256").update(Buffer.from(previousHash, "hex")).update(text).digest("hex");
}

function filterOf({ from, to, action, actor, outcome }: ExportFilter): ExportFilter {
  return { from, to, action, actor, outcome };
}

function positionOf({ number, hash }: ChainPosition): ChainPosition {
  return { number, hash };
}
