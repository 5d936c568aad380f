// Header fields that mean something to the proxy itself: those of one connection only, which must not be passed on
// (RFC 9110, 7.6.1), and those that it writes itself. All other fields pass as they are.
import { assert } from "#lib/assert.ts";

/** What to do with a field of this name. */
export type FieldKind =
  | "pass"
  /** Belongs to one connection. */
  | "hop"
  | "connection"
  | "host"
  | "authorization"
  | "content-length"
  | "transfer-encoding"
  | "expect"
  | "te"
  | "trailer"
  | "keep-alive"
  | "upgrade"
  | "request-id"
  | "forwarded-for"
  | "forwarded-proto"
  | "forwarded-host"
  | "forwarded";

const kinds: readonly (readonly [string, FieldKind])[] = [
  ["connection", "connection"],
  ["keep-alive", "keep-alive"],
  ["proxy-connection", "hop"],
  ["proxy-authenticate", "hop"],
  ["proxy-authorization", "hop"],
  ["http2-settings", "hop"],
  ["te", "te"],
  ["trailer", "trailer"],
  ["upgrade", "upgrade"],
  ["transfer-encoding", "transfer-encoding"],
  ["content-length", "content-length"],
  ["host", "host"],
  ["authorization", "authorization"],
  ["expect", "expect"],
  ["x-request-id", "request-id"],
  ["x-forwarded-for", "forwarded-for"],
  ["x-forwarded-proto", "forwarded-proto"],
  ["x-forwarded-host", "forwarded-host"],
  ["forwarded", "forwarded"],
];

/** One for each length and first letter (without its case): no two names share both. */
const entries: ({ readonly lower: string; readonly usual: string; readonly kind: FieldKind } | undefined)[] = [];
const lengthMax = 32;

function placeOf(name: string): number {
  return name.length * 32 + (name.charCodeAt(0) & 31);
}

for (let place = 0; place < lengthMax * 32; place++) entries.push(undefined);
for (const [lower, kind] of kinds) {
  assert(entries[placeOf(lower)] === undefined, `two names share the place of ${lower}`);
  entries[placeOf(lower)] = { lower, usual: lower.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase()), kind };
}

/** The kind of a field by its name in any letter case. Called for every field of every call. */
export function fieldKind(name: string): FieldKind {
  const entry = name.length < lengthMax ? entries[placeOf(name)] : undefined;
  if (entry === undefined) return "pass";
  return name === entry.usual || name === entry.lower || name.toLowerCase() === entry.lower ? entry.kind : "pass";
}

/** Names that a `Connection` field may not take out: they say how long the message is and where it goes. */
const keptAlways = new Set(["content-length", "transfer-encoding", "host", "connection", "authorization"]);

/** Adds the names that a `Connection` field lists to `into`, in lower case; options such as `close` do no harm there. */
export function addConnectionNames(value: string, into: Set<string>): void {
  for (const part of value.split(",")) {
    const name = part.trim().toLowerCase();
    if (name !== "" && !keptAlways.has(name)) into.add(name);
  }
}

const plainConnection = /^\s*(?:keep-alive|close|upgrade|te)?\s*(?:,\s*(?:keep-alive|close|upgrade|te)\s*)*$/i;

/** True when a `Connection` field names nothing but options that are handled anyway. */
export function isPlainConnection(value: string): boolean {
  return value === "keep-alive" || value === "close" || plainConnection.test(value);
}
