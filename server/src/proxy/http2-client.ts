// The client of a call that came as one stream of an HTTP/2 connection. When the answer is complete
// and the body of the request is not, the stream is ended, so that the client stops sending. Other
// streams of the connection go on.
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer } from "#lib/trusted-proxies.ts";
import { addedTo, fieldsUnder, nothingAdded, type AddedFields } from "./added-fields.ts";
import { answerFields, type AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { ClientUser, HeadGiven, HttpClient } from "./client.ts";
import { Timed, type Deadlines } from "./deadlines.ts";
import { fieldList } from "./fields.ts";
import { http2Fields } from "./http2-fields.ts";
import { refusalOf, type OwnAnswer } from "./refusal.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import { sendBody, type BodyUser, type RequestBody } from "./request-body.ts";
import type { RequestFields } from "./request-fields.ts";
import { brokenOff, readWhole } from "./whole-body.ts";

export type Http2ClientParts = {
  readonly method: string;
  readonly peer: Peer;
  /** The header fields of the request. */
  readonly fields: RequestFields;
  readonly deadlines: Deadlines;
};

/** A higher status counts as 500 (RFC 9110, 15), and Node does not send it over HTTP/2. */
const statusMax = 599;
/** Statuses whose answers never have a body. */
const statusesWithoutBody: ReadonlySet<number> = new Set([204, 205, 304]);

/** One stream: a request and its answer. */
export class Http2Client implements HttpClient {
  readonly method: string;
  readonly peer: Peer;
  added: AddedFields = nothingAdded;
  readonly #stream: ServerHttp2Stream;
  readonly #fields: RequestFields;
  readonly #deadlines: Deadlines;
  /** The trailers of the request. */
  #trailers: readonly string[] = [];
  /** The trailers of the answer. */
  #answerTrailers: readonly string[] = [];
  /** The answer that has begun may have a body. */
  #hasBody = true;
  /** The stream asks for trailers once all else of the answer has left. */
  #waitsForTrailers = false;

  constructor(stream: ServerHttp2Stream, { method, peer, fields, deadlines }: Http2ClientParts) {
    this.method = method;
    this.peer = peer;
    this.#stream = stream;
    this.#fields = fields;
    this.#deadlines = deadlines;
    stream.on("trailers", (_headers, _flags, list) => (this.#trailers = list));
    stream.on("wantTrailers", () => {
      stream.sendTrailers(http2Fields(this.#answerTrailers));
      if (this.#isBodyOver) return;
      // From the next tick on, looks whether the trailers have left, and then stops the body.
      deadlines.set(new SentTrailers(stream, () => this.#stopBody(), deadlines), 0);
    });
    // A stream closes only once the end of its request has been read.
    if (stream.endAfterHeaders) stream.resume();
  }

  get isGone(): boolean {
    const { destroyed, closed, aborted } = this.#stream;
    return destroyed || closed || aborted;
  }

  /** The body of the request has ended, or there is none. */
  get #isBodyOver(): boolean {
    return this.#stream.readableEnded || this.#stream.endAfterHeaders;
  }

  use(user: ClientUser): void {
    const stream = this.#stream;
    // A stream that its client resets while its body waits here is aborted, but not closed yet.
    const gone = (): void => {
      stream.off("aborted", gone);
      stream.off("close", gone);
      user.onClientGone();
    };
    stream.on("aborted", gone);
    stream.on("close", gone);
    stream.on("drain", () => user.onClientDrain());
  }

  send(connection: ReplicaConnection, head: string, user: BodyUser): RequestBody | null {
    const request = this.#stream;
    const fields = this.#fields;
    return sendBody(head, { request, trailers: () => this.#trailers, connection, fields, user });
  }

  async readBody(bytesMax: number, nowMs: number): Promise<Buffer | Fault> {
    const { expectsContinue, contentLength } = this.#fields;
    const request = this.#stream;
    const deadlines = this.#deadlines;
    if (expectsContinue && !this.isGone) request.additionalHeaders({ ":status": 100 });
    const expectedBytes = Math.max(0, contentLength);
    const body = await readWhole({ request, bytesMax, expectedBytes, deadlines }, nowMs);
    // If the client resets the stream without an error code, Node takes the body for complete.
    return request.aborted ? brokenOff() : body;
  }

  information(head: AnswerHead): void {
    if (this.isGone || this.#stream.headersSent) return;
    this.#stream.additionalHeaders({
      ...http2Fields(fieldList(head.lines)),
      ":status": head.status,
    });
  }

  head(head: AnswerHead, runId: RunId, { sendsTrailers, cookies, location }: HeadGiven): void {
    const added = addedTo(head, this.added);
    const fields = fieldsUnder(answerFields(head), added);
    fields.push("X-Request-Id", runId, ...added.list);
    for (const cookie of cookies) fields.push("Set-Cookie", cookie);
    if (location !== null) fields.push("Location", location);
    if (sendsTrailers && head.trailer !== null) fields.push("Trailer", head.trailer);
    this.#respond(head.status, fields, sendsTrailers);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    const takesMore = !this.#hasBody || piece.length === 0 || this.#stream.write(piece, "latin1");
    if (isLast) this.#end();
    return isLast || takesMore;
  }

  flush(): void {
    // The head has left already: streams do not wait for the first piece.
  }

  end(trailers: readonly string[]): void {
    this.#answerTrailers = trailers;
    this.#end();
  }

  refuse(fault: Fault, runId: RunId): void {
    if (this.#stream.headersSent) return this.destroy();
    this.answer(refusalOf(fault, runId));
  }

  answer({ status, fields, body }: OwnAnswer): void {
    this.#respond(status, [...fields, ...this.added.list], false);
    this.piece(body, true);
  }

  destroy(): void {
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  #respond(status: number, fields: readonly string[], waitForTrailers: boolean): void {
    this.#hasBody = this.method !== "HEAD" && !statusesWithoutBody.has(status) && !this.isGone;
    if (this.isGone) return;
    this.#waitsForTrailers = waitForTrailers && this.#hasBody;
    this.#stream.respond(
      { ...http2Fields(fields), ":status": status > statusMax ? 500 : status },
      { endStream: !this.#hasBody, waitForTrailers: this.#waitsForTrailers },
    );
  }

  /** Called when the answer is complete. */
  #end(): void {
    const stream = this.#stream;
    if (this.#hasBody && !stream.writableEnded) stream.end();
    if (!this.#waitsForTrailers) this.#stopBody();
  }

  /** Called when nothing more is to be sent. */
  #stopBody(): void {
    const stream = this.#stream;
    if (this.#isBodyOver) return;
    // The rest of the body is of no use to anybody: without an error code, the client keeps the
    // answer and stops sending (RFC 9113, 8.1).
    if (stream.writableFinished) stream.close(constants.NGHTTP2_NO_ERROR);
    else stream.once("finish", () => stream.close(constants.NGHTTP2_NO_ERROR));
  }
}

/** How many times to look whether trailers have left: every 100 ms, and so for a minute. */
const looksMax = 600;

/** Waits until the trailers of a stream have left: a stream that is closed earlier drops them. */
class SentTrailers extends Timed {
  readonly #stream: ServerHttp2Stream;
  /** Called once the trailers have left, or after the last look. */
  readonly #then: () => void;
  readonly #deadlines: Deadlines;
  #looks = 0;

  constructor(stream: ServerHttp2Stream, then: () => void, deadlines: Deadlines) {
    super();
    this.#stream = stream;
    this.#then = then;
    this.#deadlines = deadlines;
  }

  override onDeadline(nowMs: number): void {
    const { closed, state } = this.#stream;
    if (closed) return;
    this.#looks++;
    // 1: this side of the stream is closed, so everything has left.
    if (state.localClose === 1 || this.#looks === looksMax) this.#then();
    else this.#deadlines.set(this, nowMs);
  }
}
