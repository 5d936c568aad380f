// Reads the head of an answer from a replica, strictly: what two readers could understand in two ways is refused, so
// that no app can make its bytes pass for the answer to somebody else's call (RFC 9112). Pure.
import { addConnectionNames, fieldKind, isPlainConnection } from "./fields.ts";

/** How the body's end is found; `close`: when the replica closes the connection. */
export type AnswerBody = "none" | "length" | "chunked" | "close";

/** A head that was understood. */
export type AnswerHead = {
  readonly status: number;
  readonly reason: string;
  /** Name, value, name, value …: what the client gets, without fields of the connection. */
  readonly fields: string[];
  readonly body: AnswerBody;
  /** Bytes of the body for `length`. */
  readonly bodyBytes: number;
  /** The replica keeps the connection open after this answer. */
  readonly keepsOpen: boolean;
  /** How long the replica says that it keeps an idle connection; -1: it does not say. */
  readonly idleSeconds: number;
  /** The names that the replica announces as trailers; null: none. */
  readonly trailer: string | null;
  /** Protocol that the connection is switched to; null: none. */
  readonly upgrade: string | null;
};

/** What the answer is to. */
export type Asked = { readonly isHead: boolean; readonly isUpgrade: boolean };

const tokenCharacters = "!#$%&'*+\\-.^_`|~0-9A-Za-z";
const valueCharacters = "\\t\\x20-\\x7e\\x80-\\xff";
const fieldLines = `(?:[${tokenCharacters}]+:[${valueCharacters}]*\\r\\n)*`;
/** Status line and fields, each with its line end, without the empty line. No folded lines, no bare CR or LF, no blank before a colon. */
const headForm = new RegExp(`^HTTP/1\\.[01] [1-9][0-9][0-9](?: [${valueCharacters}]*)?\\r\\n${fieldLines}$`);
const trailerForm = new RegExp(`^${fieldLines}$`);
const lengthForm = /^[0-9]{1,15}$/;

/** Reads a head (one character for each byte, with the last line end, without the empty line); a text tells what is wrong with it. */
export function readAnswerHead(text: string, asked: Asked): AnswerHead | string {
  if (!headForm.test(text)) return "the head of the answer is not HTTP/1.1";
  const status = Number(text.slice(9, 12));
  const lineEnd = text.indexOf("\r\n");
  const reason = text.slice(13, lineEnd).trim();
  const isOld = text.charCodeAt(7) === 48;
  const framing = readFields(text, lineEnd + 2);
  if (typeof framing === "string") return framing;
  const { fields, bodyBytes, isChunked, idleSeconds, trailer, upgrade, nominated } = framing;
  if (isChunked && bodyBytes !== -1) return "the answer has both Content-Length and Transfer-Encoding";
  if (isChunked && (isOld || status === 204 || status < 200))
    return "the answer has a Transfer-Encoding where none may be";
  if (status === 101 && !asked.isUpgrade) return "the replica switched protocols without being asked";
  const hasNone = asked.isHead || status === 204 || status === 304 || status < 200;
  const body = hasNone
    ? "none"
    : isChunked
      ? "chunked"
      : bodyBytes === -1
        ? "close"
        : bodyBytes === 0
          ? "none"
          : "length";
  const closes = nominated !== undefined && nominated.has("close");
  return {
    status,
    reason,
    fields: status === 204 || status < 200 ? without(fields, "content-length") : fields,
    trailer: trailer ?? null,
    body,
    bodyBytes,
    keepsOpen: !isOld && !closes && body !== "close",
    idleSeconds,
    upgrade: status === 101 ? (upgrade ?? "") : null,
  };
}

/** Reads trailers in the form of `readAnswerHead`: name, value, …, without those that would change what was said before. */
export function readTrailers(text: string): string[] | undefined {
  if (!trailerForm.test(text)) return undefined;
  const trailers: string[] = [];
  eachField(text, 0, (name, value) => {
    if (fieldKind(name) === "pass" && !isFraming.test(name)) trailers.push(name, value);
  });
  return trailers;
}

const isFraming = /^(?:content-(?:encoding|type|range)|cache-control|set-cookie|location|date)$/i;

type Framing = {
  readonly fields: string[];
  readonly bodyBytes: number;
  readonly isChunked: boolean;
  readonly idleSeconds: number;
  readonly trailer: string | undefined;
  readonly upgrade: string | undefined;
  /** What `Connection` fields name, in lower case; undefined: nothing but keep-alive. */
  readonly nominated: ReadonlySet<string> | undefined;
};

function readFields(text: string, start: number): Framing | string {
  const fields: string[] = [];
  let bodyBytes = -1;
  let isChunked = false;
  let idleSeconds = -1;
  let trailer: string | undefined;
  let upgrade: string | undefined;
  let nominated: Set<string> | undefined;
  for (let at = start; at < text.length;) {
    const colon = text.indexOf(":", at);
    const end = text.indexOf("\r\n", colon);
    const name = text.slice(at, colon);
    const value = trimmed(text, colon + 1, end);
    at = end + 2;
    switch (fieldKind(name)) {
      case "content-length":
        if (bodyBytes !== -1) return "the answer has several Content-Length fields";
        if (!lengthForm.test(value)) return "the answer's Content-Length is not a number";
        bodyBytes = Number(value);
        break;
      case "transfer-encoding":
        if (isChunked || value.toLowerCase() !== "chunked") return "the answer's transfer coding is not understood";
        isChunked = true;
        break;
      case "connection":
        if (value !== "keep-alive") addConnectionNames(value, (nominated ??= new Set()));
        break;
      case "keep-alive":
        idleSeconds = idleSecondsOf(value);
        break;
      case "upgrade":
        upgrade = value;
        break;
      case "trailer":
        trailer = value;
        break;
      case "hop":
      case "te":
      case "expect":
      // The platform's own id of the call is the only one that its clients can trust.
      case "request-id":
        break;
      default:
        fields.push(name, value);
    }
  }
  const left = nominated === undefined ? fields : withoutNominated(fields, nominated);
  // Last, because node changes the bytes of a Content-Disposition that comes after it.
  if (bodyBytes !== -1) left.push("Content-Length", String(bodyBytes));
  return { fields: left, bodyBytes, isChunked, idleSeconds, trailer, upgrade, nominated };
}

/** The value without the blanks around it. */
function trimmed(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}

function eachField(text: string, start: number, take: (name: string, value: string) => void): void {
  for (let at = start; at < text.length;) {
    const colon = text.indexOf(":", at);
    const end = text.indexOf("\r\n", colon);
    take(text.slice(at, colon), trimmed(text, colon + 1, end));
    at = end + 2;
  }
}

function withoutNominated(fields: string[], nominated: ReadonlySet<string>): string[] {
  if ([...nominated].every((name) => isPlainConnection(name))) return fields;
  return fields.filter((_, index) => !nominated.has((fields[index - (index % 2)] ?? "").toLowerCase()));
}

function without(fields: string[], lowerName: string): string[] {
  return fields.filter((_, index) => (fields[index - (index % 2)] ?? "").toLowerCase() !== lowerName);
}

function idleSecondsOf(value: string): number {
  const seconds = /(?:^|[\s,])timeout=(\d{1,9})(?:[\s,]|$)/i.exec(value)?.[1];
  return seconds === undefined ? -1 : Number(seconds);
}
