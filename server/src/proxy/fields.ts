// Header fields that concern the proxy itself: those of one connection, which must not be passed on (RFC 9110, 7.6.1), and
// those that it writes. All other lines of a head pass byte for byte.
import { assert } from "#lib/assert.ts";

/** How the proxy treats a field. */
export type FieldKind =
  | "pass"
  /** Concerns one connection. */
  | "hop"
  /** Of an answer: would apply to the whole host name and port, which apps share with each other and the dashboard. */
  | "whole-site"
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
  | "date"
  | "cookie"
  | "set-cookie"
  | "request-id"
  | "forwarded-for"
  | "forwarded-proto"
  | "forwarded-host"
  | "location"
  | "forwarded";

const kinds: readonly (readonly [string, FieldKind])[] = [
  ["connection", "connection"],
  ["keep-alive", "keep-alive"],
  ["proxy-connection", "hop"],
  ["proxy-authenticate", "hop"],
  ["proxy-authorization", "hop"],
  ["http2-settings", "hop"],
  // Only the platform may ask a replica to keep an answer.
  ["slipway-held", "hop"],
  ["te", "te"],
  ["trailer", "trailer"],
  ["upgrade", "upgrade"],
  ["date", "date"],
  ["cookie", "cookie"],
  ["set-cookie", "set-cookie"],
  ["transfer-encoding", "transfer-encoding"],
  ["content-length", "content-length"],
  ["host", "host"],
  ["authorization", "authorization"],
  ["expect", "expect"],
  ["x-request-id", "request-id"],
  ["x-forwarded-for", "forwarded-for"],
  ["x-forwarded-proto", "forwarded-proto"],
  ["x-forwarded-host", "forwarded-host"],
  // Only the platform knows which path is an app's root for its clients.
  ["x-forwarded-prefix", "forwarded"],
  ["forwarded", "forwarded"],
  ["location", "location"],
  ["service-worker-allowed", "whole-site"],
  ["clear-site-data", "whole-site"],
  ["strict-transport-security", "whole-site"],
  ["alt-svc", "whole-site"],
  ["nel", "whole-site"],
  ["report-to", "whole-site"],
  ["accept-ch", "whole-site"],
  ["origin-agent-cluster", "whole-site"],
  ["use-as-dictionary", "whole-site"],
  ["set-login", "whole-site"],
  // Sessions that a browser binds to its device, for the whole site, with requests of its own.
  ["secure-session-registration", "whole-site"],
  ["sec-session-registration", "whole-site"],
];

/** Keyed by length and first letter (case-insensitive): no two names share both. */
const entries: ({ readonly lower: string; readonly usual: string; readonly kind: FieldKind } | undefined)[] = [];
const lengthMax = 32;
const lettersMax = 32;

for (let place = 0; place < lengthMax * lettersMax; place++) entries.push(undefined);
for (const [lower, kind] of kinds) {
  const place = placeOf(lower, 0, lower.length);
  assert(entries[place] === undefined, `two names share the place of ${lower}`);
  const usual = lower.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase());
  entries[place] = { lower, usual, kind };
}

function placeOf(text: string, start: number, end: number): number {
  return (end - start) * lettersMax + (text.charCodeAt(start) & (lettersMax - 1));
}

/** The kind of the field whose name is the text from `start` to `end`, case-insensitive. */
export function fieldKind(text: string, start = 0, end = text.length): FieldKind {
  if (end - start >= lengthMax) return "pass";
  const entry = entries[placeOf(text, start, end)];
  if (entry === undefined) return "pass";
  const name = text.slice(start, end);
  if (name === entry.usual) return entry.kind;
  const lower = name.toLowerCase();
  if (lower === entry.lower) return entry.kind;
  // Servers that pass fields on as variables (CGI, WSGI) cannot tell `X_Forwarded_For` from the real field.
  return lower.replaceAll("_", "-") === entry.lower ? "hop" : "pass";
}

const tokenCharacters = "!#$%&'*+\\-.^_`|~0-9A-Za-z";
/** Characters allowed in a value, a reason or a target besides blanks: no control characters. */
export const valueCharacters = "\\t\\x20-\\x7e\\x80-\\xff";
/** The syntax of field lines: no folded lines, no bare CR or LF, no blank before a colon. */
export const fieldLinesForm = `(?:[${tokenCharacters}]+:[${valueCharacters}]*\\r\\n)*`;
/** The syntax of a method. */
export const tokenForm = `[${tokenCharacters}]+`;

/** Parses the field lines of one message; a subclass decides about lines that do not simply pass. */
export abstract class FieldReader {
  /** Lower-case names that `Connection` fields list; null: nothing unusual. */
  protected nominated: Set<string> | null = null;

  /** Called only for fields whose kind is not `pass`. True: its line is passed on. */
  protected abstract take(kind: FieldKind, value: string): boolean;

  /** Parses lines of `fieldLinesForm` from `start` on; returns those that pass, after the text between `from` and `start`. */
  protected read(text: string, start: number, from = start): string {
    const end = text.length;
    let passed = "";
    let runStart = from;
    for (let at = start; at < end;) {
      const colon = text.indexOf(":", at);
      const lineEnd = text.indexOf("\r\n", colon) + 2;
      const kind = fieldKind(text, at, colon);
      if (kind !== "pass" && !this.take(kind, trimmed(text, colon + 1, lineEnd - 2))) {
        if (runStart < at) passed += text.slice(runStart, at);
        runStart = lineEnd;
      }
      at = lineEnd;
    }
    if (runStart < end) passed += text.slice(runStart, end);
    return this.nominated === null ? passed : withoutLines(passed, this.nominated);
  }

  /** The same for fields in the format of node's parser: name, value, name, value … */
  protected readList(list: readonly string[]): string {
    let passed = "";
    for (let index = 0; index + 1 < list.length; index += 2) {
      const name = list[index] ?? "";
      const value = list[index + 1] ?? "";
      const kind = fieldKind(name);
      if (kind === "pass" || this.take(kind, value)) passed += `${name}: ${value}\r\n`;
    }
    return this.nominated === null ? passed : withoutLines(passed, this.nominated);
  }

  /** Records the names in a `Connection` field. */
  protected takeConnection(value: string): void {
    if (value === "keep-alive" || value === "close") return;
    for (const part of value.split(",")) {
      const name = part.trim().toLowerCase();
      if (name !== "" && !keptAlways.has(name)) (this.nominated ??= new Set()).add(name);
    }
  }
}

/** Fields that `Connection` cannot remove: they give the message's length and destination. */
const keptAlways = new Set(["content-length", "transfer-encoding", "host", "authorization"]);

/** Removes the lines with the given lower-case names. */
function withoutLines(lines: string, names: ReadonlySet<string>): string {
  const kept = lines.split("\r\n").filter((line) => !names.has(line.slice(0, line.indexOf(":")).toLowerCase()));
  return kept.join("\r\n");
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

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}
