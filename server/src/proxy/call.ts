// One plain HTTP call, from the moment it may enter its app to the end of its answer: waits in the line if it must, is
// sent to a replica, and its answer is handed on as it comes. Whatever happens - the client goes, the replica goes, time
// runs out - its place is given back exactly once and neither side is left open.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { AdmittedCall, type Live } from "./admitted-call.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { AppCalls } from "./app-calls.ts";
import type { Deadlines } from "./deadlines.ts";
import type { CallOutcome } from "./finished-call.ts";
import { sendRefusal, statusOf } from "./refusal.ts";
import type { ConnectionUser, Loss, ReplicaConnection } from "./replica-connection.ts";
import { idleMs } from "./replica-pool.ts";
import type { ReplicaSlot } from "./replica-slot.ts";
import { RequestBody } from "./request-body.ts";
import type { RequestFields } from "./request-head.ts";

/** What a call is about. */
export type CallRequest = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly runId: RunId;
  /** What the replica is asked for. */
  readonly path: string;
  readonly fields: RequestFields;
  /** Lines that the proxy adds to the head. */
  readonly addedLines: string;
};

/** What all calls have in common. */
export type CallParts = {
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  readonly bodyBytesMax: number;
  readonly log: Log;
  /** Told at the end of each call that entered its app. */
  readonly onEnd: ((call: Call, outcome: CallOutcome) => void) | null;
};

/** A replica may close an idle connection in the moment that a call is sent; more than once in a row it is something else. */
const triesMax = 3;
const repeatable = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** One call. `enter()` once; everything after that happens by itself. */
export class Call extends AdmittedCall implements ConnectionUser {
  readonly about: CallRequest;
  /** What the client got; null: nothing. */
  status: number | null = null;
  answerBytes = 0;
  /** The last replica that it was sent to. */
  lastSlot: ReplicaSlot | null = null;
  readonly #app: AppCalls;
  readonly #parts: CallParts;
  #connection: ReplicaConnection | null = null;
  #body: RequestBody | null = null;
  #head: AnswerHead | null = null;
  #isHeadFlushed = false;
  #isAnswerEnded = false;
  #isOver = false;
  #listensDrain = false;
  #tries = 0;
  /** The connection has served another call before. */
  #isReused = false;

  constructor(about: CallRequest, app: AppCalls, live: Live, arrivedAtMs: number, parts: CallParts) {
    super(arrivedAtMs, live);
    this.about = about;
    this.#app = app;
    this.#parts = parts;
  }

  get requestBytes(): number {
    return this.#body?.bytes ?? 0;
  }

  get app(): AppCalls {
    return this.#app;
  }

  /** Enters the app; from here on it looks after itself. */
  enter(): void {
    const { response, request } = this.about;
    response.on("close", () => this.#clientGone());
    // One of several calls that were sent at once: its answer is not told of the end of the connection.
    if (response.socket === null) request.socket.once("close", () => this.#clientGone());
    const fault = this.#app.enter(this);
    if (fault !== null) this.refuse(fault);
  }

  override begin(slot: ReplicaSlot, nowMs: number): void {
    this.lastSlot = slot;
    this.#tries++;
    const asked = { isHead: this.about.request.method === "HEAD", isUpgrade: false };
    const connection = slot.pool.take(this, asked, nowMs);
    this.#connection = connection;
    this.#isReused = connection.isReused;
    if (!connection.isConnecting) this.#send(connection);
  }

  override refuse(fault: Fault): void {
    if (this.#isOver) return;
    this.status = statusOf(fault);
    const { response, runId } = this.about;
    sendRefusal(response, fault, runId, { deadlines: this.#parts.deadlines, nowMs: this.#parts.monotonicMs() });
    this.#over("refused");
  }

  override onDeadline(): void {
    if (this.isInLine) {
      this.#app.leave(this);
      this.refuse(new Fault("line_timeout", "no replica of the app had room for the call within the waiting time"));
      return;
    }
    const seconds = this.live.settings.responseGracePeriodSeconds;
    this.#fail(new Fault("call_timeout", `the app did not answer within responseGracePeriodSeconds (${seconds} s)`));
  }

  onConnected(): void {
    if (this.#connection !== null) this.#send(this.#connection);
  }

  onDrain(): void {
    this.#body?.onDrain();
  }

  onInformation(head: AnswerHead): void {
    const { request, response, fields } = this.about;
    if (request.httpVersionMinor === 0 || response.destroyed) return;
    if (head.status !== 100) response.writeInformation(head.status, head.fields);
    else if (fields.expectsContinue) response.writeContinue();
  }

  onHead(head: AnswerHead): void {
    this.#head = head;
    this.status = head.status;
    const { response, runId, fields: asked } = this.about;
    const { fields } = head;
    fields.push("X-Request-Id", runId);
    if (
      head.trailer !== null &&
      head.body === "chunked" &&
      asked.takesTrailers &&
      response.useChunkedEncodingByDefault
    ) {
      fields.push("Trailer", head.trailer);
    }
    response.writeHead(head.status, head.reason, fields);
  }

  onPiece(piece: Piece, isLast: boolean): void {
    const { response } = this.about;
    this.#isHeadFlushed = true;
    this.answerBytes += piece.length;
    if (isLast) {
      this.#isAnswerEnded = true;
      response.end(piece, "latin1");
    } else if (!response.write(piece, "latin1")) {
      this.#waitForClient();
    }
  }

  onRead(): void {
    if (this.#head === null || this.#isHeadFlushed) return;
    this.#isHeadFlushed = true;
    this.about.response.flushHeaders();
  }

  onEnd(trailers: readonly string[]): void {
    const connection = this.#connection;
    const head = this.#head;
    const { response, fields } = this.about;
    this.#connection = null;
    const isAllSent = this.#body === null || this.#body.isSent;
    if (connection !== null) this.#release(connection, isAllSent && head?.keepsOpen === true, head?.idleSeconds ?? -1);
    if (!isAllSent) this.#body?.stop();
    if (!this.#isAnswerEnded) {
      this.#isAnswerEnded = true;
      if (trailers.length > 0 && fields.takesTrailers && response.chunkedEncoding)
        response.addTrailers(pairs(trailers));
      response.end();
    }
    this.#app.leave(this);
    this.#over("answered");
  }

  onBroken(error: unknown): void {
    this.#connection = null;
    this.#parts.log.error({ err: error, runId: this.about.runId }, "handing on an answer failed");
    this.#fail(new Fault("internal", `the platform failed; its log has the reason under ${this.about.runId}`));
  }

  onLost(loss: Loss): void {
    this.#connection = null;
    if (this.#head === null && this.#tries < triesMax && this.#again(loss)) return;
    this.#fail(new Fault("replica_failed", `the replica failed: ${loss.reason}`));
  }

  #send(connection: ReplicaConnection): void {
    const { request, path, fields, addedLines, runId } = this.about;
    const { contentLength, isChunked, expectsContinue } = fields;
    // Clients of HTTP/1.0 need not send one, HTTP/1.1 demands it.
    const host = fields.host === undefined ? "Host: app\r\n" : "";
    const line = `${request.method ?? "GET"} ${path} HTTP/1.1\r\n${host}${fields.passed}${addedLines}X-Request-Id: ${runId}\r\n`;
    if (contentLength <= 0 && !isChunked) {
      connection.write(contentLength === 0 ? `${line}Content-Length: 0\r\n\r\n` : `${line}\r\n`);
      return;
    }
    const framing = isChunked ? "Transfer-Encoding: chunked\r\n" : `Content-Length: ${contentLength}\r\n`;
    const expectation = expectsContinue ? "Expect: 100-continue\r\n" : "";
    this.#body = new RequestBody({
      request,
      connection,
      head: `${line}${framing}${expectation}\r\n`,
      isChunked,
      expectsContinue,
      bytesMax: this.#parts.bodyBytesMax,
      onTooLarge: () => this.#fail(tooLarge(this.#parts.bodyBytesMax)),
    });
    this.#body.start();
  }

  /** Sends it once more where that is safe: the replica has seen nothing of it, or nothing but a head that may be repeated. */
  #again(loss: Loss): boolean {
    const { slot } = this;
    if (slot === null || this.#body !== null) return false;
    if (loss.kind === "unreachable") return this.#app.move(this);
    const { request } = this.about;
    const isIdleRace = this.#isReused && !loss.hasAnswered && loss.kind === "closed";
    if (!isIdleRace || !repeatable.has(request.method ?? "")) return false;
    this.#tries++;
    this.#isReused = false;
    const asked = { isHead: request.method === "HEAD", isUpgrade: false };
    this.#connection = slot.pool.takeNew(this, asked, this.#parts.monotonicMs());
    return true;
  }

  /** Ends the call although its answer is not complete. */
  #fail(fault: Fault): void {
    if (this.#isOver) return;
    this.#connection?.destroy();
    this.#connection = null;
    this.#body?.stop();
    this.#app.leave(this);
    if (this.#head === null) {
      this.refuse(fault);
      return;
    }
    // The client must see that the answer is not whole.
    this.about.response.destroy();
    this.#over("cut");
  }

  #clientGone(): void {
    if (this.#isOver) return;
    this.#connection?.destroy();
    this.#connection = null;
    this.#app.leave(this);
    this.#over("client_gone");
  }

  /** Reads no more of the answer until the client has taken what it was sent. */
  #waitForClient(): void {
    this.#connection?.pause();
    if (this.#listensDrain) return;
    this.#listensDrain = true;
    this.about.response.on("drain", () => this.#connection?.resume());
  }

  #release(connection: ReplicaConnection, canStay: boolean, toldSeconds: number): void {
    const { slot } = this;
    if (slot === null || !canStay) {
      connection.destroy();
      return;
    }
    const nowMs = this.#parts.monotonicMs();
    slot.pool.giveBack(connection, nowMs + idleMs(this.live.settings.runtime, toldSeconds), nowMs);
  }

  #over(outcome: CallOutcome): void {
    this.#isOver = true;
    const { meter } = this.#app;
    if (outcome === "client_gone") meter.clientGoneTotal++;
    else if (outcome === "cut") meter.cutTotal++;
    else meter.answered(this.status ?? 0, this.#parts.monotonicMs() - this.arrivedAtMs);
    this.#parts.onEnd?.(this, outcome);
  }
}

/** The answer to a body that is longer than the limit. */
export function tooLarge(bytesMax: number): Fault {
  return new Fault("too_large", `the body is larger than ${bytesMax} bytes`);
}

/** As node wants trailers. */
function pairs(trailers: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let index = 0; index + 1 < trailers.length; index += 2) {
    list.push([trailers[index] ?? "", trailers[index + 1] ?? ""]);
  }
  return list;
}
