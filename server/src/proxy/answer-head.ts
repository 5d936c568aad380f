// Reads the head of an answer from a replica, strictly: what two readers could understand in two ways is refused, so
// that no app can make its bytes pass for the answer to somebody else's call (RFC 9112). Pure.
import { fieldKind, FieldReader, fieldLinesForm, fieldList, valueCharacters, type FieldKind } from "./fields.ts";

/** How the body's end is found; `close`: when the replica closes the connection. */
export type AnswerBody = "none" | "length" | "chunked" | "close";

/** What the answer is to. */
export type Asked = { readonly isHead: boolean; readonly isUpgrade: boolean };

const headForm = new RegExp(`^HTTP/1\\.[01] [1-9][0-9][0-9](?: [${valueCharacters}]*)?\\r\\n${fieldLinesForm}$`);
const trailerForm = new RegExp(`^${fieldLinesForm}$`);
const lengthForm = /^[0-9]{1,15}$/;
const version = "HTTP/1.0";
/** Behind `HTTP/1.1 200 `. */
const reasonStart = 13;

/** A head that was understood. Not changed once it is made. */
export class AnswerHead extends FieldReader {
  readonly status: number;
  /** The status line and the lines that the client gets, each with its line end. */
  readonly text: string;
  readonly body: AnswerBody;
  /** Bytes of the body for `length`; -1: the replica does not say. */
  bodyBytes = -1;
  /** The replica keeps the connection open after this answer. */
  readonly keepsOpen: boolean;
  /** How long the replica says that it keeps an idle connection; -1: it does not say. */
  idleSeconds = -1;
  /** The names that the replica announces as trailers; null: none. */
  trailer: string | null = null;
  /** Protocol that the connection is switched to; null: none. */
  upgrade: string | null = null;
  hasDate = false;
  /** Values of `Set-Cookie`, which are not among the lines; null: none. */
  cookies: string[] | null = null;
  /** What is wrong with it; null: nothing. */
  problem: string | null = null;
  #isChunked = false;

  /** `text`: one character for each byte, of the form `headForm`. */
  constructor(text: string, asked: Asked) {
    super();
    const linesStart = text.indexOf("\r\n") + 2;
    const isOld = text.charCodeAt(7) === 48;
    const status = digit(text, 9) * 100 + digit(text, 10) * 10 + digit(text, 11);
    this.status = status;
    const passed = this.read(text, linesStart, 0);
    const isInterim = status < 200;
    const neverHasBody = isInterim || status === 204;
    const kept = neverHasBody && this.bodyBytes !== -1 ? linesWithout(passed, "content-length") : passed;
    this.text = isOld ? `HTTP/1.1${kept.slice(version.length)}` : kept;
    this.body = asked.isHead || neverHasBody || status === 304 ? "none" : this.#bodyOf();
    this.keepsOpen =
      !isOld && this.body !== "close" && (this.nominated === null || !this.nominated.has("close")) && !this.#closes;
    if (this.#isChunked) this.#checkCoding(isOld || neverHasBody);
    if (status === 101 && !asked.isUpgrade) this.problem = "the replica switched protocols without being asked";
  }

  /** As the replica wrote it. */
  get reason(): string {
    return this.text.slice(reasonStart, this.text.indexOf("\r\n"));
  }

  /** The lines that the client gets, without the status line. */
  get lines(): string {
    return this.text.slice(this.text.indexOf("\r\n") + 2);
  }

  #closes = false;

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
        (this.cookies ??= []).push(value);
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
      default:
        // Of one connection only, of more than the app, or an id that the platform gives itself.
        return !isNeverPassed.has(kind);
    }
  }

  #bodyOf(): AnswerBody {
    if (this.#isChunked) return "chunked";
    if (this.bodyBytes === -1) return "close";
    return this.bodyBytes === 0 ? "none" : "length";
  }

  #checkCoding(isForbidden: boolean): void {
    if (this.bodyBytes !== -1) this.problem = "the answer has both Content-Length and Transfer-Encoding";
    if (isForbidden) this.problem = "the answer has a Transfer-Encoding where none may be";
  }
}

const isNeverPassed: ReadonlySet<FieldKind> = new Set(["hop", "te", "expect", "request-id", "whole-site"]);

/** The fields that the client gets, as node takes them: name, value, …, the length last. */
export function answerFields({ lines, bodyBytes }: AnswerHead): string[] {
  const list = fieldList(lines);
  if (bodyBytes === -1 || list.length === 0 || isLength(list[list.length - 2] ?? "")) return list;
  // Node changes the bytes of a Content-Disposition that comes after a length.
  for (let index = 0; index < list.length; index += 2) {
    if (isLength(list[index] ?? "")) list.push(...list.splice(index, 2));
  }
  return list;
}

/** Reads a head (one character for each byte, with the last line end, without the empty line); a text tells what is wrong with it. */
export function readAnswerHead(text: string, asked: Asked): AnswerHead | string {
  if (!headForm.test(text)) return "the head of the answer is not HTTP/1.1";
  const head = new AnswerHead(text, asked);
  return head.problem ?? head;
}

/** Reads trailers in the form of `readAnswerHead`: name, value, …, without those that would change what was said before. */
export function readTrailers(text: string): string[] | undefined {
  if (!trailerForm.test(text)) return undefined;
  const list = fieldList(text);
  return list.filter((_, index) => isTrailer(list[index - (index % 2)] ?? ""));
}

function isTrailer(name: string): boolean {
  return fieldKind(name) === "pass" && !isEarlyOnly.test(name);
}

const isEarlyOnly = /^(?:content-(?:encoding|type|range)|cache-control|set-cookie|location)$/i;

function isLength(name: string): boolean {
  return fieldKind(name) === "content-length";
}

function digit(text: string, at: number): number {
  return text.charCodeAt(at) - 48;
}

function linesWithout(lines: string, lowerName: string): string {
  return lines
    .split("\r\n")
    .filter((line) => line.slice(0, line.indexOf(":")).toLowerCase() !== lowerName)
    .join("\r\n");
}

function idleSecondsOf(value: string): number {
  const seconds = /(?:^|[\s,])timeout=(\d{1,9})(?:[\s,]|$)/i.exec(value)?.[1];
  return seconds === undefined ? -1 : Number(seconds);
}
