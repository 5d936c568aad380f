// Parses the head of a replica's answer, strictly: it refuses anything that two parsers could read
// differently, so no app can pass its bytes off as the answer to another call (RFC 9112). Pure.
import {
  fieldKind,
  FieldReader,
  fieldLinesForm,
  fieldList,
  linesWithout,
  valueCharacters,
  type FieldKind,
} from "./fields.ts";

/** How the body ends; `close`: when the replica closes the connection. */
export type AnswerBody = "none" | "length" | "chunked" | "close";

/** The request that the answer belongs to. */
export type RequestKind = { readonly isHead: boolean; readonly isUpgrade: boolean };

const headForm = new RegExp(
  `^HTTP/1\\.[01] [1-9][0-9][0-9](?: [${valueCharacters}]*)?\\r\\n${fieldLinesForm}$`,
);
const trailerForm = new RegExp(`^${fieldLinesForm}$`);
/** Up to 15 digits, which a number holds exactly. */
const lengthForm = /^[0-9]{1,15}$/;
const http10 = "HTTP/1.0";
/** Where the three digits of the status begin: after `HTTP/1.1 `. */
const statusStart = 9;
/** Where the reason phrase begins: after `HTTP/1.1 200 `. */
const reasonStart = 13;
/** The code of the character `0`, from which the codes of the digits count up. */
const codeOfZero = 48;

/** A parsed head. Immutable once constructed. */
export class AnswerHead extends FieldReader {
  /** The three-digit status code. */
  readonly status: number;
  /** The status line and the lines for the client, each with its line end. */
  readonly text: string;
  readonly body: AnswerBody;
  /** The Content-Length of the answer; -1: it has none. */
  bodyBytes = -1;
  /** The replica keeps the connection open after this answer. */
  readonly keepsOpen: boolean;
  /** The idle timeout that the replica announces, in seconds; -1: none. */
  idleSeconds = -1;
  /** The trailer names that the replica announces; null: none. */
  trailer: string | null = null;
  /** The protocol that the connection switches to; null: none. */
  upgrade: string | null = null;
  hasDate = false;
  /** Values of `Set-Cookie`, which `lines` leaves out; null: none. */
  cookies: string[] | null = null;
  /**
   * The value of `Location`, which `text` leaves out, since it is relative to the app's own root
   * (see location.ts). Null: none.
   */
  location: string | null = null;
  /** The replica says that it never began the call. */
  isRefused = false;
  /** What is wrong with the head; null: nothing. */
  problem: string | null = null;
  /** The answer has a `Transfer-Encoding`, which may only be `chunked`. */
  #isChunked = false;
  /** A `Connection` field is just `close`; the names in a longer one are in `nominated`. */
  #closes = false;

  /** `text`: one character per byte, matching `headForm`. */
  constructor(text: string, request: RequestKind) {
    super();
    const linesStart = text.indexOf("\r\n") + 2;
    const isHttp10 = text.startsWith(http10);
    const status =
      digit(text, statusStart) * 100 +
      digit(text, statusStart + 1) * 10 +
      digit(text, statusStart + 2);
    this.status = status;
    // The status line, and the field lines that are passed on.
    const passed = this.read(text, linesStart, 0);
    const isInterim = status < 200;
    // An answer with status 204 (No Content) has no length. One with status 304 (Not Modified) has
    // no body either, but may have the length of the body that it leaves out.
    const neverHasBody = isInterim || status === 204;
    // An answer that never has a body must not have a Content-Length (RFC 9110, 8.6).
    const isLengthForbidden = neverHasBody && this.bodyBytes !== -1;
    const clientText = isLengthForbidden ? linesWithout(passed, lengthName) : passed;
    this.text = isHttp10 ? `HTTP/1.1${clientText.slice(http10.length)}` : clientText;
    const hasNoBody = request.isHead || neverHasBody || status === 304;
    this.body = hasNoBody ? "none" : this.#bodyOf();
    const saysClose = this.#closes || this.nominated?.has("close") === true;
    this.keepsOpen = !isHttp10 && !saysClose && this.body !== "close";
    if (this.#isChunked) this.#checkCoding(isHttp10 || neverHasBody);
    if (status === 101 && !request.isUpgrade)
      this.problem = "the replica switched protocols without being asked";
  }

  /** The reason phrase, as the replica wrote it. */
  get reason(): string {
    return this.text.slice(reasonStart, this.text.indexOf("\r\n"));
  }

  /** The lines for the client, without the status line. */
  get lines(): string {
    return this.text.slice(this.text.indexOf("\r\n") + 2);
  }

  protected override take(kind: FieldKind, value: string): boolean {
    switch (kind) {
      case "date":
        this.hasDate = true;
        return true;
      case "content-length":
        if (this.bodyBytes !== -1) this.problem = "the answer has several Content-Length fields";
        if (!lengthForm.test(value)) this.problem = "the answer's Content-Length is not a number";
        this.bodyBytes = Number(value);
        return true;
      case "set-cookie":
        this.cookies ??= [];
        this.cookies.push(value);
        return false;
      case "location":
        this.location = value;
        return false;
      case "connection":
        if (value.toLowerCase() === "close") this.#closes = true;
        else this.takeConnection(value);
        return false;
      case "transfer-encoding":
        if (this.#isChunked || value.toLowerCase() !== "chunked") {
          this.problem = "the answer's transfer coding is not understood";
        }
        this.#isChunked = true;
        return false;
      case "keep-alive":
        this.idleSeconds = idleSecondsOf(value);
        return false;
      case "trailer":
        this.trailer = value;
        return false;
      case "upgrade":
        this.upgrade = value;
        return false;
      case "slipway-refused":
        // The runtime sends the field only with this status.
        this.isRefused = this.status === 503;
        return false;
      default:
        return !neverPassed.has(kind);
    }
  }

  #bodyOf(): AnswerBody {
    if (this.#isChunked) return "chunked";
    if (this.bodyBytes === -1) return "close";
    return this.bodyBytes === 0 ? "none" : "length";
  }

  #checkCoding(isForbidden: boolean): void {
    if (this.bodyBytes !== -1)
      this.problem = "the answer has both Content-Length and Transfer-Encoding";
    if (isForbidden) this.problem = "the answer has a Transfer-Encoding where none may be";
  }
}

/**
 * Fields that concern one connection only, affect more than the app, or carry an id that the
 * platform sets itself.
 */
const neverPassed: ReadonlySet<FieldKind> = new Set([
  "hop",
  "te",
  "expect",
  "request-id",
  "whole-site",
]);

/** The fields for the client in Node's format (name, value, …), with `Content-Length` last. */
export function answerFields({ lines, bodyBytes }: AnswerHead): string[] {
  const list = fieldList(lines);
  if (bodyBytes === -1) return list;
  // Names have even indexes.
  const lengthIndex = list.findIndex((text, index) => index % 2 === 0 && isLength(text));
  // Node alters the bytes of a Content-Disposition that follows a length.
  if (lengthIndex !== -1) list.push(...list.splice(lengthIndex, 2));
  return list;
}

/**
 * Parses a head (one character per byte, with the last line end, without the empty line); if the
 * head is malformed, returns a text that says why.
 */
export function readAnswerHead(text: string, request: RequestKind): AnswerHead | string {
  if (!headForm.test(text)) return "the head of the answer is not HTTP/1.1";
  const head = new AnswerHead(text, request);
  return head.problem ?? head;
}

/**
 * Parses trailers, written like the lines of a head. Returns name, value, …, without trailers that
 * would alter the head; undefined: they are malformed.
 */
export function readTrailers(text: string): string[] | undefined {
  if (!trailerForm.test(text)) return undefined;
  const list = fieldList(text);
  return list.filter((_, index) => {
    // A name has an even index, and its value the next one.
    const nameIndex = index - (index % 2);
    return isTrailer(list[nameIndex] ?? "");
  });
}

function isTrailer(name: string): boolean {
  return fieldKind(name) === "pass" && !headOnlyName.test(name);
}

/** Fields that a client acts on in a head, so none of them may come later, as a trailer. */
const headOnlyName = /^(?:content-(?:encoding|type|range)|cache-control|set-cookie|location)$/i;

const lengthName = new Set(["content-length"]);

function isLength(name: string): boolean {
  return fieldKind(name) === "content-length";
}

function digit(text: string, offset: number): number {
  return text.charCodeAt(offset) - codeOfZero;
}

/** The `timeout` in the value of a `Keep-Alive` field; -1: it has none. */
function idleSecondsOf(value: string): number {
  const seconds = /(?:^|[\s,])timeout=(\d{1,9})(?:[\s,]|$)/i.exec(value)?.[1];
  return seconds === undefined ? -1 : Number(seconds);
}
