// One plain HTTP call, from the moment it may enter its app to the end of its answer: waits in the line if it must, is
// sent to a replica, and its answer is handed on as it comes. Whatever happens - the client goes, the replica goes, time
// runs out - its place is given back exactly once and neither side is left open.
import type { Fault } from "#lib/fault.ts";
import type { ProjectId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { AdmittedCall, type Live } from "./admitted-call.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { AppCalls } from "./app-calls.ts";
import { callTimeout, internal, lineTimeout, replicaFailed, tooLarge } from "./call-faults.ts";
import type { Client, ClientUser } from "./client.ts";
import { cookiesOfApp } from "./cookies.ts";
import type { Deadlines } from "./deadlines.ts";
import type { CallOutcome } from "./finished-call.ts";
import { statusOf } from "./refusal.ts";
import type { ConnectionUser, Loss, ReplicaConnection } from "./replica-connection.ts";
import { idleMs } from "./replica-pool.ts";
import type { ReplicaSlot } from "./replica-slot.ts";
import { RequestBody } from "./request-body.ts";
import type { RequestFields } from "./request-fields.ts";

/** What a call is about. */
export type CallRequest = {
  readonly client: Client;
  readonly runId: RunId;
  readonly projectId: ProjectId;
  /** What the replica is asked for. */
  readonly path: string;
  readonly clientAddress: string;
  readonly fields: RequestFields;
  /** All lines for the replica but framing and the call's id. */
  readonly lines: string;
  /** Of the answer, see site.ts. */
  readonly isSandboxed: boolean;
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

/** One call. `enter()` once; everything after that happens by itself. Calls of runs extend it. */
export class Call extends AdmittedCall implements ConnectionUser, ClientUser {
  readonly about: CallRequest;
  /** What the client got; null: nothing. */
  status: number | null = null;
  requestBytes = 0;
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
  #tries = 0;
  /** The connection has served another call before. */
  #isReused = false;

  constructor(about: CallRequest, app: AppCalls, live: Live, arrivedAtMs: number, parts: CallParts) {
    super(arrivedAtMs, live);
    this.about = about;
    this.#app = app;
    this.#parts = parts;
  }

  get app(): AppCalls {
    return this.#app;
  }

  protected get isOver(): boolean {
    return this.#isOver;
  }

  /** Enters the app; from here on it looks after itself. */
  enter(): void {
    this.about.client.use(this);
    const fault = this.#app.enter(this);
    if (fault !== null) this.refuse(fault);
  }

  override begin(slot: ReplicaSlot, nowMs: number): void {
    this.lastSlot = slot;
    this.#tries++;
    const asked = { isHead: this.about.client.method === "HEAD", isUpgrade: false };
    const connection = slot.pool.take(this, asked, nowMs);
    this.#connection = connection;
    this.#isReused = connection.isReused;
    if (!connection.isConnecting) this.send(connection);
  }

  override refuse(fault: Fault): void {
    if (this.#isOver) return;
    this.status = statusOf(fault);
    this.about.client.refuse(fault, this.about.runId, this.#parts.monotonicMs());
    this.over("refused", this.#parts.monotonicMs());
  }

  override onDeadline(nowMs: number): void {
    if (this.isInLine) {
      this.#app.leave(this, nowMs);
      this.refuse(lineTimeout());
    } else {
      this.fail(callTimeout(this.live));
    }
  }

  onConnected(): void {
    if (this.#connection !== null) this.send(this.#connection);
  }

  onDrain(): void {
    this.#body?.onDrain();
  }

  onClientGone(): void {
    if (this.#isOver) return;
    const nowMs = this.#parts.monotonicMs();
    this.#connection?.destroy();
    this.#connection = null;
    this.#app.leave(this, nowMs);
    this.over("client_gone", nowMs);
  }

  onClientDrain(): void {
    this.#connection?.resume();
  }

  onInformation(head: AnswerHead): void {
    const { client, fields } = this.about;
    if (head.status !== 100) client.information(head);
    else if (fields.expectsContinue) client.giveLeave();
  }

  onHead(head: AnswerHead): void {
    this.#head = head;
    this.status = head.status;
    const { client, runId, projectId, fields, isSandboxed } = this.about;
    const sendsTrailers = head.body === "chunked" && fields.takesTrailers;
    const cookies = cookiesOfApp(head.cookies, { projectId, appId: this.#app.meter.appId });
    client.head(head, runId, { sendsTrailers, isSandboxed, cookies });
  }

  onPiece(piece: Piece, isLast: boolean): void {
    this.#isHeadFlushed = true;
    this.answerBytes += piece.length;
    this.#isAnswerEnded = isLast;
    // Nothing more of the answer is read until the client has taken what it was sent.
    if (!this.about.client.piece(piece, isLast)) this.#connection?.pause();
  }

  onRead(): void {
    if (this.#head === null || this.#isHeadFlushed) return;
    this.#isHeadFlushed = true;
    this.about.client.flush();
  }

  onEnd(trailers: readonly string[]): void {
    const connection = this.#connection;
    const head = this.#head;
    const nowMs = this.#parts.monotonicMs();
    this.#connection = null;
    const isAllSent = this.#body === null || this.#body.isSent;
    if (connection !== null && head !== null) this.#release(connection, isAllSent ? head : null, nowMs);
    if (!isAllSent) this.#body?.stop();
    this.#app.leave(this, nowMs);
    this.over("answered", nowMs);
    if (!this.#isAnswerEnded) this.about.client.end(this.about.fields.takesTrailers ? trailers : []);
  }

  onBroken(error: unknown): void {
    this.#connection = null;
    this.#parts.log.error({ err: error, runId: this.about.runId }, "handing on an answer failed");
    this.fail(internal(this.about.runId, error));
  }

  onLost(loss: Loss): void {
    this.#connection = null;
    if (this.#head === null && this.#tries < triesMax && this.#again(loss)) return;
    this.fail(replicaFailed(this.about.runId, loss.reason));
  }

  protected send(connection: ReplicaConnection): void {
    const { client, path, fields, lines, runId } = this.about;
    const { contentLength, isChunked, expectsContinue } = fields;
    const head = `${client.method} ${path} HTTP/1.1\r\n${lines}X-Request-Id: ${runId}\r\n`;
    if (contentLength <= 0 && !isChunked) {
      connection.write(contentLength === 0 ? `${head}Content-Length: 0\r\n\r\n` : `${head}\r\n`);
      return;
    }
    const framing = isChunked ? "Transfer-Encoding: chunked\r\n" : `Content-Length: ${contentLength}\r\n`;
    if (client.request === null) {
      this.requestBytes = contentLength;
      connection.write(`${head}${framing}\r\n${client.body}`);
      return;
    }
    const expectation = expectsContinue ? "Expect: 100-continue\r\n" : "";
    this.#body = new RequestBody({
      request: client.request,
      connection,
      head: `${head}${framing}${expectation}\r\n`,
      isChunked,
      expectsContinue,
      bytesMax: this.#parts.bodyBytesMax,
      onBytes: (bytes) => (this.requestBytes = bytes),
      onTooLarge: () => this.fail(tooLarge(this.#parts.bodyBytesMax)),
    });
    this.#body.start();
  }

  /** Sends it once more where that is safe: the replica has seen nothing of it, or nothing but a head that may be repeated. */
  #again(loss: Loss): boolean {
    const { slot } = this;
    if (slot === null || this.#body !== null) return false;
    if (loss.kind === "unreachable") {
      this.#app.move(this);
      return true;
    }
    const { method } = this.about.client;
    const isIdleRace = this.#isReused && !loss.hasAnswered && loss.kind === "closed";
    if (!isIdleRace || this.requestBytes > 0 || !repeatable.has(method)) return false;
    this.#tries++;
    this.#isReused = false;
    const asked = { isHead: method === "HEAD", isUpgrade: false };
    this.#connection = slot.pool.takeNew(this, asked, this.#parts.monotonicMs());
    return true;
  }

  /** Ends the call although its answer is not complete. */
  protected fail(fault: Fault): void {
    if (this.#isOver) return;
    const nowMs = this.#parts.monotonicMs();
    this.#connection?.destroy();
    this.#connection = null;
    this.#body?.stop();
    this.#app.leave(this, nowMs);
    if (this.#head === null) {
      this.refuse(fault);
      return;
    }
    this.over("cut", nowMs);
    this.about.client.destroy(fault);
  }

  /** `head`: what the replica says of the connection; null: it cannot be used again. */
  #release(connection: ReplicaConnection, head: AnswerHead | null, nowMs: number): void {
    const { slot } = this;
    if (slot === null || head === null || !head.keepsOpen) {
      connection.destroy();
      return;
    }
    slot.pool.giveBack(connection, nowMs + idleMs(this.live.settings.runtime, head.idleSeconds), nowMs);
  }

  protected over(outcome: CallOutcome, nowMs: number): void {
    this.#isOver = true;
    const { meter } = this.#app;
    if (outcome === "client_gone") meter.clientGoneTotal++;
    else if (outcome === "cut") meter.cutTotal++;
    else meter.answered(this.status ?? 0, nowMs - this.arrivedAtMs);
    this.#parts.onEnd?.(this, outcome);
  }
}
