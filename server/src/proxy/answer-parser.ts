// Parses the answers on one connection to a replica; the result does not depend on how the bytes
// are split into pieces. Anything that is not strict HTTP/1.1 stops the parser with a reason, and
// the connection must not be reused.
import { readAnswerHead, type AnswerHead, type RequestKind } from "./answer-head.ts";
import { ChunkedBody } from "./chunked-body.ts";

/**
 * A part of a body: a buffer, or a text with one character per byte, which is cheaper for small
 * parts.
 */
export type Piece = Buffer | string;

/** The receiver of an answer. */
export interface AnswerSink {
  /** An informational answer (1xx); the final answer follows. */
  onInformation(head: AnswerHead): void;
  onHead(head: AnswerHead): void;
  /** `isLast`: the answer ends with this piece, and `onEnd` follows at once. */
  onPiece(piece: Piece, isLast: boolean): void;
  /** The answer is complete. */
  onEnd(trailers: readonly string[]): void;
}

/**
 * `idle`: no answer is expected. `head`: a head is being read. `length`, `chunked` and `close`: a
 * body that ends as in `AnswerBody` is being read. `ended`: the answer is complete, but the sink
 * has not been notified yet. `switched`: from here on, the bytes belong to another protocol. `bad`:
 * see `problem`.
 */
type State = "idle" | "head" | "length" | "chunked" | "close" | "ended" | "switched" | "bad";

/** The limit of the head of an answer, which the platform keeps until all of it has arrived. */
const headBytesMax = 65_536;
/**
 * How many bytes are converted to text at a time in the search for a head's end, so that most of a
 * large body that arrives with its head is not converted.
 */
const headStepBytes = 16_384;
/** Pieces up to this size are passed on as text, which Node writes without an allocation. */
const textBytesMax = 8_192;
/** How many informational answers may precede a final one; real apps send one or two. */
const informationMax = 32;
const noTrailers: readonly string[] = Object.freeze([]);
const headStart = "HTTP/1.";
/** A head with a bare line feed is refused at once, before all of it has arrived. */
const bareLineFeed = /(?:^|[^\r])\n/;

/** The parser of one connection. */
export class AnswerParser {
  /** Why the connection can no longer be used. */
  problem: string | undefined;
  /** The bytes that follow a protocol switch. */
  rest: Buffer | undefined;
  #state: State = "idle";
  /** The request whose answer is being read. */
  #request: RequestKind = { isHead: false, isUpgrade: false };
  /** The beginning of a head whose end has not arrived yet. */
  #headText = "";
  /** How many bytes of a body with a known length are still to come. */
  #bodyBytesLeft = 0;
  #informationCount = 0;
  /** The decoder while a chunked body is being read. */
  #chunked: ChunkedBody | undefined;
  /** Undefined: no answer is expected, or its end was reported, or the parser has failed. */
  #sink: AnswerSink | undefined;
  /** The trailers of an answer whose end is to be reported. */
  #trailers: readonly string[] = noTrailers;

  /** A request was sent: the next bytes are its answer. */
  expect(request: RequestKind, sink: AnswerSink): void {
    this.#request = request;
    this.#sink = sink;
    this.#state = "head";
    this.#headText = "";
    this.#informationCount = 0;
  }

  /** True while an answer is incomplete, and after a protocol switch. */
  get isExpecting(): boolean {
    return this.#state !== "idle" && this.#state !== "ended" && this.#state !== "bad";
  }

  /** Why the app's runtime breaks off its answer, as stated in the body; null: not stated. */
  get error(): string | null {
    return this.#chunked?.error ?? null;
  }

  /** Parses the first `length` bytes; the buffer may be overwritten as soon as `push` returns. */
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
    // The end is not reported earlier: `onEnd` may give the connection to another call, and all
    // bytes of this `push` must be parsed by then.
    if (this.#state === "ended") this.#notifyEnd();
  }

  /**
   * The replica has closed its side of the connection. If that is the regular end of an answer,
   * notifies the sink and returns true.
   */
  finish(): boolean {
    if (this.#state !== "close") return false;
    this.#notifyEnd();
    return true;
  }

  /**
   * Handles bytes that belong to no answer. After a protocol switch they are kept. Otherwise the
   * connection gets a problem, so that they are never taken for the answer to the next call.
   */
  #keepRest(bytes: Buffer, at: number, length: number): void {
    if (this.#state === "switched") {
      const piece = Buffer.from(bytes.subarray(at, length));
      this.rest = this.rest === undefined ? piece : Buffer.concat([this.rest, piece]);
    } else {
      // The answer before these bytes stays valid: `push` still reports its end.
      this.problem ??= "the replica sent bytes that belong to no answer";
    }
  }

  /** Like the other functions `#push…`, returns where the bytes begin that are not parsed yet. */
  #pushHead(bytes: Buffer, at: number, length: number): number {
    const before = this.#headText.length;
    const end = Math.min(length, at + Math.min(headStepBytes, headBytesMax - before));
    const text = this.#headText + bytes.toString("latin1", at, end);
    // Up to three of the four bytes that end a head may have arrived before.
    const headEnd = text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (headEnd === -1) {
      this.#headText = text;
      // A text that is still shorter than `headStart` may be its beginning.
      const isHttp = text.startsWith(headStart) || headStart.startsWith(text);
      if (!isHttp || bareLineFeed.test(text)) this.#fail("the head of the answer is not HTTP/1.1");
      else if (text.length >= headBytesMax)
        this.#fail(`the head of the answer is longer than ${headBytesMax} bytes`);
      return end;
    }
    this.#headText = "";
    // The head includes its last line end, but not the empty line.
    const head = readAnswerHead(text.slice(0, headEnd + 2), this.#request);
    const bodyStart = headEnd + 4;
    // The first `before` bytes of the text come from earlier pieces.
    const next = at + bodyStart - before;
    if (typeof head === "string") {
      this.#fail(head);
      return next;
    }
    this.#begin(head);
    const bodyBytes = this.#bodyBytesLeft;
    const isBodyHere =
      this.#state === "length" && bodyBytes <= end - next && bodyBytes <= textBytesMax;
    if (!isBodyHere) return next;
    // The usual small answer arrives in one piece, whose text contains the body.
    this.#end(noTrailers);
    this.#sink?.onPiece(text.slice(bodyStart, bodyStart + bodyBytes), true);
    return next + bodyBytes;
  }

  #begin(head: AnswerHead): void {
    if (head.status === 101) {
      this.#state = "switched";
      this.#sink?.onHead(head);
    } else if (head.status < 200) {
      this.#informationCount++;
      if (this.#informationCount > informationMax)
        this.#fail("the replica sends informational answers without end");
      else this.#sink?.onInformation(head);
    } else {
      this.#bodyBytesLeft = head.bodyBytes;
      if (head.body === "none") this.#end(noTrailers);
      else this.#state = head.body;
      if (head.body === "chunked") this.#chunked = new ChunkedBody();
      this.#sink?.onHead(head);
    }
  }

  #pushLength(bytes: Buffer, at: number, length: number): number {
    const end = Math.min(length, at + this.#bodyBytesLeft);
    this.#bodyBytesLeft -= end - at;
    const isLast = this.#bodyBytesLeft === 0;
    if (isLast) this.#end(noTrailers);
    this.#sink?.onPiece(pieceOf(bytes, at, end), isLast);
    return end;
  }

  #pushChunked(bytes: Buffer, at: number, length: number): number {
    // `#begin` has set `#chunked` together with the state.
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

  #notifyEnd(): void {
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

/** A copy of the bytes, since the buffer may be overwritten. */
function pieceOf(bytes: Buffer, from: number, to: number): Piece {
  if (to - from <= textBytesMax) return bytes.toString("latin1", from, to);
  return Buffer.from(bytes.subarray(from, to));
}
