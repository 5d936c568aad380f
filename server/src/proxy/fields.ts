// The header fields that the proxy does not simply pass on: fields that concern one connection (RFC
// 9110, 7.6.1), and fields that it reads or writes itself. All other lines of a head pass byte for
// byte.
import { assert } from "#lib/assert.ts";

/** Fields that the proxy treats one by one, so the name of each is also its kind. */
const namedKinds = [
  "connection",
  "keep-alive",
  "te",
  "trailer",
  "upgrade",
  "date",
  "cookie",
  "set-cookie",
  "transfer-encoding",
  "content-length",
  "host",
  "authorization",
  "expect",
  "forwarded",
  "location",
  "origin",
  "access-control-request-method",
  "access-control-request-headers",
  "content-encoding",
  // In an answer, this field says that the replica never began the call
  // (runtimes/python/README.md).
  "slipway-refused",
] as const;

/** Further fields that the proxy treats one by one: `x-` and the kind are the name. */
const namedExtendedKinds = [
  "request-id",
  "forwarded-for",
  "forwarded-proto",
  "forwarded-host",
] as const;

/**
 * Fields that concern one connection, and `slipway-held`, with which only the platform may ask a
 * replica to keep an answer.
 */
const hop = [
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "http2-settings",
  "slipway-held",
];

/**
 * Fields of an answer that would apply to the whole host name and port, which apps share with each
 * other and the dashboard.
 */
const wholeSite = [
  "service-worker-allowed",
  "clear-site-data",
  "strict-transport-security",
  "alt-svc",
  "nel",
  "report-to",
  "accept-ch",
  "origin-agent-cluster",
  "use-as-dictionary",
  "set-login",
  // These start a session that the browser binds to its device, for the whole site.
  "secure-session-registration",
  "sec-session-registration",
];

/** How the proxy treats a field. */
export type FieldKind =
  | "pass"
  | "hop"
  | "whole-site"
  | (typeof namedKinds | typeof namedExtendedKinds)[number];

/** The name of each field that does not simply pass, in lower case, and its kind. */
const kinds: readonly (readonly [string, FieldKind])[] = [
  ...namedKinds.map((name) => [name, name] as const),
  ...namedExtendedKinds.map((kind) => [`x-${kind}`, kind] as const),
  ...hop.map((name) => [name, "hop"] as const),
  ...wholeSite.map((name) => [name, "whole-site"] as const),
  // Only the platform knows which path is an app's root for its clients.
  ["x-forwarded-prefix", "forwarded"],
];

/** The fields, indexed by the length and the first letter of the name. No two names share both. */
const entries: (
  | { readonly lower: string; readonly capitalized: string; readonly kind: FieldKind }
  | undefined
)[] = [];
/** All names above are shorter than this. */
const lengthMax = 32;
/** The last five bits of a letter's code are the same for its upper and its lower case. */
const lettersMax = 32;

// The array is filled first, since Node reads an array with holes more slowly.
for (let index = 0; index < lengthMax * lettersMax; index++) entries.push(undefined);
for (const [lower, kind] of kinds) {
  const index = indexOf(lower, 0, lower.length);
  assert(entries[index] === undefined, `two names share the index of ${lower}`);
  const capitalized = lower.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase());
  entries[index] = { lower, capitalized, kind };
}

/** The index of a name, which is the text from `start` to `end`. */
function indexOf(text: string, start: number, end: number): number {
  return (end - start) * lettersMax + (text.charCodeAt(start) & (lettersMax - 1));
}

/** The kind of the field whose name is the text from `start` to `end`, case-insensitive. */
export function fieldKind(text: string, start = 0, end = text.length): FieldKind {
  if (end - start >= lengthMax) return "pass";
  const entry = entries[indexOf(text, start, end)];
  if (entry === undefined) return "pass";
  const name = text.slice(start, end);
  // The usual spelling comes first, since it needs no conversion.
  if (name === entry.capitalized) return entry.kind;
  const lower = name.toLowerCase();
  if (lower === entry.lower) return entry.kind;
  // Servers that pass fields on as variables (CGI, WSGI) cannot tell `X_Forwarded_For` from the
  // real field, so a field with underscores in its name is not passed on.
  return lower.replaceAll("_", "-") === entry.lower ? "hop" : "pass";
}

const tokenCharacters = "!#$%&'*+\\-.^_`|~0-9A-Za-z";
/** Characters allowed in a value, a reason or a target besides blanks: no control characters. */
export const valueCharacters = "\\t\\x20-\\x7e\\x80-\\xff";
/** The syntax of field lines: no folded lines, no bare CR or LF, no blank before a colon. */
export const fieldLinesForm = `(?:[${tokenCharacters}]+:[${valueCharacters}]*\\r\\n)*`;
/** The syntax of a method. */
export const tokenForm = `[${tokenCharacters}]+`;

/**
 * Parses the field lines of one message; a subclass decides about lines that do not simply pass.
 */
export abstract class FieldReader {
  /** Lower-case names that `Connection` fields list and that are removed; null: none. */
  protected nominated: Set<string> | null = null;

  /** Called only for fields whose kind is not `pass`. True: the field's line is passed on. */
  protected abstract take(kind: FieldKind, value: string): boolean;

  /**
   * Parses field lines, which must match `fieldLinesForm`, from `start` on. Returns the text from
   * `from` to `start`, followed by the lines that are passed on.
   */
  protected read(text: string, start: number, from = start): string {
    const end = text.length;
    let passed = "";
    /** Where the text begins that is passed on but not yet copied. */
    let uncopiedFrom = from;
    for (let at = start; at < end;) {
      const colon = text.indexOf(":", at);
      const lineEnd = text.indexOf("\r\n", colon) + 2;
      const kind = fieldKind(text, at, colon);
      if (kind !== "pass" && !this.take(kind, trimmed(text, colon + 1, lineEnd - 2))) {
        if (uncopiedFrom < at) passed += text.slice(uncopiedFrom, at);
        uncopiedFrom = lineEnd;
      }
      at = lineEnd;
    }
    if (uncopiedFrom < end) passed += text.slice(uncopiedFrom, end);
    return this.nominated === null ? passed : linesWithout(passed, this.nominated);
  }

  /**
   * Parses fields in the format of Node's parser: name, value, name, value … Returns the lines that
   * are passed on.
   */
  protected readList(list: readonly string[]): string {
    let passed = "";
    for (let index = 0; index + 1 < list.length; index += 2) {
      const name = list[index] ?? "";
      const value = list[index + 1] ?? "";
      const kind = fieldKind(name);
      if (kind === "pass" || this.take(kind, value)) passed += `${name}: ${value}\r\n`;
    }
    return this.nominated === null ? passed : linesWithout(passed, this.nominated);
  }

  /** Records the names in a `Connection` field. */
  protected takeConnection(value: string): void {
    // These usual values name no field that would otherwise be passed on.
    if (value === "keep-alive" || value === "close") return;
    for (const part of value.split(",")) {
      const name = part.trim().toLowerCase();
      if (name === "" || neverRemoved.has(name)) continue;
      this.nominated ??= new Set();
      this.nominated.add(name);
    }
  }
}

/** Fields that `Connection` cannot remove: the message's length, destination and token. */
const neverRemoved = new Set(["content-length", "transfer-encoding", "host", "authorization"]);

/** Removes the lines with the given lower-case names. */
export function linesWithout(lines: string, names: ReadonlySet<string>): string {
  const remaining = lines.split("\r\n").filter((line) => {
    const name = line.slice(0, line.indexOf(":"));
    return !names.has(name.toLowerCase());
  });
  return remaining.join("\r\n");
}

/** Names and values of the lines: name, value, name, value … */
export function fieldList(lines: string): string[] {
  const list: string[] = [];
  for (let at = 0; at < lines.length;) {
    const colon = lines.indexOf(":", at);
    const lineEnd = lines.indexOf("\r\n", colon);
    list.push(lines.slice(at, colon), trimmed(lines, colon + 1, lineEnd));
    at = lineEnd + 2;
  }
  return list;
}

/** The value without surrounding blanks, which are spaces and tabs only (RFC 9110, 5.5). */
export function trimmed(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const space = 32;
const tab = 9;

function isBlank(code: number): boolean {
  return code === space || code === tab;
}
