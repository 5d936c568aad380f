// Parses the answers on one connection to a replica; the result does not depend on how the bytes
// are split into pieces. Anything that is not strict HTTP/1.1 stops the parser with a reason, and
// the connection must not be reused.
import { readAnswerHead, type AnswerHead, type Asked } from "./answer-head.ts";
import { ChunkedBody } from "./chunked-body.ts";

/**
 * A part of a body: a buffer, or a text with one character per byte, which is cheaper for small
 * parts.
 */
export type Piece = Buffer | string;

/** The receiver of an answer. */
export interface AnswerSink {
  /** An informational answer (1xx); the final one follows. */
  onInformation(head: AnswerHead): void;
  onHead(head: AnswerHead): void;
  /** `isLast`: the answer ends with this piece, `onEnd` follows at once. */
  onPiece(piece: Piece, isLast: boolean): void;
  /** The answer is complete. */
  onEnd(trailers: readonly string[]): void;
}

/** `ended`: complete, but the sink has not been notified yet. */
type State = "idle" | "head" | "length" | "chunked" | "close" | "ended" | "switched" | "bad";

const headBytesMax = 65_536;
/**
 * How many bytes are scanned per step, so that a large piece with a short head is not converted to
 * text.
 */
const headStepBytes = 16_384;
/** Smaller pieces are passed on as text: node writes text of this size without an allocation. */
const textBytesMax = 8_192;
const informationMax = 32;
const noTrailers: readonly string[] = Object.freeze([]);
const start = "HTTP/1.";
/** Rejects early a partial head that can no longer become valid. */
const bareLineFeed = /(?:^|[^\r])\n/;

/** The parser of one connection. */
export class AnswerParser {
  /** Why the connection can no longer be used. */
  problem: string | undefined;
  /** Bytes that follow the end of an answer or a protocol switch. */
  rest: Buffer | undefined;
  #state: State = "idle";
  #asked: Asked = { isHead: false, isUpgrade: false };
  #headText = "";
  #left = 0;
  #informationCount = 0;
  #chunked: ChunkedBody | undefined;
  #sink: AnswerSink | undefined;
  #trailers: readonly string[] = noTrailers;

  /** A request was sent: the next bytes are its answer. */
  expect(asked: Asked, sink: AnswerSink): void {
    this.#asked = asked;
    this.#sink = sink;
    this.#state = "head";
    this.#headText = "";
    this.#informationCount = 0;
  }

  /** True while an answer is incomplete. */
  get isExpecting(): boolean {
    return this.#state !== "idle" && this.#state !== "ended" && this.#state !== "bad";
  }

  /** Why an answer breaks off, as the app's runtime says it; null: it says nothing. */
  get error(): string | null {
    return this.#chunked?.error ?? null;
  }

  /** Parses `length` bytes; the buffer may be overwritten as soon as this returns. */
  push(bytes: Buffer, length: number): void {
    let at = 0;
    while (at < length) {
      switch (this.#state) {
        case "head":
          at = this.#pushHead(bytes, at, length);
          break;
        case "length":
          at = this.#pushLength(bytes, at, length);
          break;
        case "chunked":
          at = this.#pushChunked(bytes, at, length);
          break;
        case "close":
          this.#sink?.onPiece(pieceOf(bytes, at, length), false);
          at = length;
          break;
        default:
          this.#keepRest(bytes, at, length);
          at = length;
      }
    }
    // The connection may serve another call only now that these bytes are used up.
    if (this.#state === "ended") this.#tellEnd();
  }

  /**
   * The replica has closed its side. True when that properly ends an answer; the sink is notified.
   */
  finish(): boolean {
    if (this.#state !== "close") return false;
    this.#tellEnd();
    return true;
  }

  /** Unrequested bytes must never be taken for the answer to the next call. */
  #keepRest(bytes: Buffer, at: number, length: number): void {
    if (this.#state === "switched") {
      const piece = Buffer.from(bytes.subarray(at, length));
      this.rest = this.rest === undefined ? piece : Buffer.concat([this.rest, piece]);
    } else {
      // An answer that was complete before stays valid: `push` still reports its end.
      this.problem ??= "the replica sent bytes that belong to no answer";
    }
  }

  #pushHead(bytes: Buffer, at: number, length: number): number {
    const before = this.#headText.length;
    const end = Math.min(length, at + Math.min(headStepBytes, headBytesMax - before));
    const text = this.#headText + bytes.toString("latin1", at, end);
    const mark = text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (mark === -1) {
      this.#headText = text;
      const isHttp = text.length < start.length ? start.startsWith(text) : text.startsWith(start);
      if (!isHttp || bareLineFeed.test(text)) this.#fail("the head of the answer is not HTTP/1.1");
      else if (text.length >= headBytesMax)
        this.#fail(`the head of the answer is longer than ${headBytesMax} bytes`);
      return end;
    }
    this.#headText = "";
    const head = readAnswerHead(text.slice(0, mark + 2), this.#asked);
    const next = at + mark + 4 - before;
    if (typeof head === "string") {
      this.#fail(head);
      return next;
    }
    this.#begin(head);
    if (this.#state !== "length" || end - next < this.#left || this.#left > textBytesMax)
      return next;
    // The usual small answer arrives in one piece: its text is already here.
    const bodyEnd = mark + 4 + this.#left;
    this.#end(noTrailers);
    this.#sink?.onPiece(text.slice(mark + 4, bodyEnd), true);
    return next + bodyEnd - mark - 4;
  }

  #begin(head: AnswerHead): void {
    if (head.status === 101) {
      this.#state = "switched";
      this.#sink?.onHead(head);
    } else if (head.status < 200) {
      if (++this.#informationCount > informationMax)
        this.#fail("the replica sends informational answers without end");
      else this.#sink?.onInformation(head);
    } else {
      this.#left = head.bodyBytes;
      if (head.body === "none") this.#end(noTrailers);
      else this.#state = head.body;
      if (head.body === "chunked") this.#chunked = new ChunkedBody();
      this.#sink?.onHead(head);
    }
  }

  #pushLength(bytes: Buffer, at: number, length: number): number {
    const end = Math.min(length, at + this.#left);
    this.#left -= end - at;
    const isLast = this.#left === 0;
    if (isLast) this.#end(noTrailers);
    this.#sink?.onPiece(pieceOf(bytes, at, end), isLast);
    return end;
  }

  #pushChunked(bytes: Buffer, at: number, length: number): number {
    const body = this.#chunked as ChunkedBody;
    const next = body.push(bytes, at, length, (source, from, to) =>
      this.#sink?.onPiece(pieceOf(source, from, to), false),
    );
    if (body.isBad) this.#fail("the answer's chunks are malformed");
    else if (body.isDone) this.#end(body.trailers);
    return next;
  }

  #end(trailers: readonly string[]): void {
    this.#state = "ended";
    this.#trailers = trailers;
    this.#chunked = undefined;
  }

  #tellEnd(): void {
    this.#state = "idle";
    const sink = this.#sink;
    this.#sink = undefined;
    sink?.onEnd(this.#trailers);
  }

  #fail(problem: string): void {
    this.#state = "bad";
    this.problem = problem;
    this.#sink = undefined;
  }
}

function pieceOf(bytes: Buffer, from: number, to: number): Piece {
  return to - from <= textBytesMax
    ? bytes.toString("latin1", from, to)
    : Buffer.from(bytes.subarray(from, to));
}
