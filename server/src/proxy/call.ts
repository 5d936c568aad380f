// One plain HTTP call, from its admission to the end of its answer: it waits in the line if
// necessary, goes to a replica, and its answer is streamed to the client. Whatever happens - the
// client disconnects, the replica disappears, a deadline passes - its slot is released exactly once
// and neither side is left open.
import type { Fault } from "#lib/fault.ts";
import type { Log } from "#lib/log.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import { AdmittedCall, type CallAbout, type Live } from "./admitted-call.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { AppCalls } from "./app-calls.ts";
import * as faults from "./call-faults.ts";
import type { Client, ClientUser } from "./client.ts";
import { cookiesOfApp } from "./cookies.ts";
import type { Deadlines } from "./deadlines.ts";
import type { CallOutcome } from "./finished-call.ts";
import { locationOfApp } from "./location.ts";
import { statusOf } from "./refusal.ts";
import type { ConnectionUser, Loss, ReplicaConnection } from "./replica-connection.ts";
import { idleMs } from "./replica-pool.ts";
import type { ReplicaSlot } from "./replica-slot.ts";
import type { BodyUser, RequestBody } from "./request-body.ts";
import type { RequestFields } from "./request-fields.ts";

/** Describes a plain call. */
export type PlainAbout = CallAbout & {
  readonly client: Client;
  readonly fields: RequestFields;
  /**
   * Only the call of a run has this: asks whether the call may be sent to the replica; if not, the
   * client withdraws the call. Null: the call is not of a run, and may start at once.
   */
  readonly mayStart: ((replica: ReadyReplica) => Promise<boolean>) | null;
};

/** The parts that all calls share. */
export type CallParts = {
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  readonly bodyBytesMax: number;
  readonly log: Log;
  /**
   * Finds out why the replica that worked on a broken-off call has ended. Resolves with a sentence
   * for callers, or with null if the replica has not ended after a moment. Never rejects. Null
   * instead of a function: the client finds out itself.
   */
  readonly whyEnded: ((call: Call) => Promise<string | null>) | null;
  /** Called when a call that entered its app ends. */
  readonly onEnd: ((call: Call, outcome: CallOutcome) => void) | null;
};

/**
 * The maximum number of times that a call is sent. A replica may close an idle connection just as a
 * call is sent, so the call is sent again; repeated failures have another cause. The limit holds
 * for the call of a run. Any other call of which no replica has seen a byte has no such limit: it
 * waits for the next replica, up to the deadline of the line.
 */
const triesMax = 3;
/** The methods whose requests may be sent twice (RFC 9110, 9.2.2). */
const repeatableMethods = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** One call. Call `enter()` once; the rest runs by itself. */
export class Call extends AdmittedCall implements ConnectionUser, ClientUser, BodyUser {
  override readonly about: PlainAbout;
  readonly #app: AppCalls;
  readonly #parts: CallParts;
  #connection: ReplicaConnection | null = null;
  /** The body that the client is sending; null: none was begun, or it was sent with the head. */
  #body: RequestBody | null = null;
  /** The head of the answer; null: it has not arrived yet. */
  #head: AnswerHead | null = null;
  /** The client has been sent the head, with the first piece of the answer or before it. */
  #isHeadFlushed = false;
  /** The client was given the last piece of the answer, which ends the answer. */
  #isAnswerEnded = false;
  /** The end of the call has been counted and reported. */
  #isOver = false;
  /** The call broke off and has given up its slot; its caller waits until the reason is known. */
  #hasLeft = false;
  /** True while `mayStart` is being asked. */
  #isStarting = false;
  /** How many times the call was given a connection. */
  #tries = 0;
  /** The connection has served an earlier call. */
  #isReused = false;

  constructor(about: PlainAbout, app: AppCalls, live: Live, arrivedAtMs: number, parts: CallParts) {
    super(arrivedAtMs, live);
    this.about = about;
    this.#app = app;
    this.#parts = parts;
  }

  get bodyBytesMax(): number {
    return this.#parts.bodyBytesMax;
  }

  /** Enters the app; the call runs by itself from here. */
  enter(): void {
    this.about.client.use(this);
    const fault = this.#app.enter(this);
    if (fault !== null) this.refuse(fault);
  }

  override begin(slot: ReplicaSlot, nowMs: number): void {
    this.lastSlot = slot;
    const { mayStart } = this.about;
    if (mayStart === null) this.#start(slot, nowMs);
    else void this.#startIf(mayStart, slot);
  }

  override refuse(fault: Fault): void {
    if (this.#isOver) return;
    this.fault = fault;
    this.status = statusOf(fault);
    const { client, runId, mayStart } = this.about;
    // The fault of a run (its call has `mayStart`) goes to its record, which only members of the
    // project read.
    const shown = mayStart === null ? faults.shownToCaller(fault, this.live) : fault;
    client.refuse(shown, runId, this.#parts.monotonicMs());
    this.#finish("refused", this.#parts.monotonicMs());
  }

  override onDeadline(nowMs: number): void {
    if (this.isInLine) {
      this.#app.leave(this, nowMs);
      this.refuse(faults.lineTimeout());
    } else if (this.#isStarting) {
      this.fail(faults.notStarted());
    } else {
      this.fail(faults.callTimeout(this.live));
    }
  }

  onConnected(): void {
    if (this.#connection !== null) this.#send(this.#connection);
  }

  onDrain(): void {
    this.#body?.onDrain();
  }

  onBodyTooLarge(): void {
    this.fail(faults.tooLarge(this.bodyBytesMax));
  }

  onClientGone(): void {
    if (this.#isOver) return;
    const nowMs = this.#parts.monotonicMs();
    this.#leave(nowMs);
    this.#finish("client_gone", nowMs);
  }

  onClientDrain(): void {
    this.#connection?.resume();
  }

  onInformation(head: AnswerHead): void {
    const { client, fields } = this.about;
    // A client that does not wait for a status 100 gets none.
    if (head.status !== 100 || fields.expectsContinue) client.information(head);
  }

  onHead(head: AnswerHead): void {
    this.#head = head;
    this.status = head.status;
    if (head.isRefused) this.#app.pause(this);
    const { client, runId, fields, lines, rootPath } = this.about;
    const sendsTrailers = head.body === "chunked" && fields.takesTrailers;
    const cookies = cookiesOfApp(head.cookies, rootPath);
    const location = head.location === null ? null : locationOfApp(head.location, lines);
    client.head(head, runId, { sendsTrailers, cookies, location });
  }

  onPiece(piece: Piece, isLast: boolean): void {
    this.#isHeadFlushed = true;
    this.answerBytes += piece.length;
    this.#isAnswerEnded = isLast;
    // Stops reading the answer until the client has drained.
    if (!this.about.client.piece(piece, isLast)) this.#connection?.pause();
  }

  onRead(): void {
    // Only a head that arrived without a piece is sent here; otherwise both are sent together.
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
    if (connection !== null && head !== null) {
      // A replica that still expects the rest of a body would take the next call for that rest.
      if (isAllSent) this.#release(connection, head, nowMs);
      else connection.destroy();
    }
    if (!isAllSent) this.#body?.stop();
    this.#app.leave(this, nowMs);
    this.#finish("answered", nowMs);
    if (this.#isAnswerEnded) return;
    const { client, fields } = this.about;
    client.end(fields.takesTrailers ? trailers : []);
  }

  onBroken(error: unknown): void {
    this.#connection = null;
    this.#parts.log.error({ err: error, runId: this.about.runId }, "handing on an answer failed");
    this.fail(faults.internal(this.about.runId, error));
  }

  onLost(loss: Loss): void {
    this.#connection = null;
    if (this.#head === null && this.#tryAgain(loss)) return;
    // A process that is ending closes its connections, but still accepts new ones for a moment.
    // Calls sent over these would be lost, so the replica gets no calls for a while.
    if (loss.kind === "closed" && !loss.hasAnswered) this.#app.pause(this);
    this.error = loss.error;
    const { runId } = this.about;
    const fault =
      loss.error === null
        ? faults.replicaFailed(runId, loss.reason)
        : faults.functionFailed(loss.error);
    const { whyEnded } = this.#parts;
    // The end of the replica explains only a connection that closed before the answer had begun.
    if (whyEnded === null || this.#head !== null || loss.kind !== "closed") this.fail(fault);
    else void this.#failWithReason(fault, whyEnded);
  }

  /** Frees the slot at once, and fails the call once the reason is known, or after a moment. */
  async #failWithReason(fault: Fault, whyEnded: NonNullable<CallParts["whyEnded"]>): Promise<void> {
    this.#body?.stop();
    this.#leave(this.#parts.monotonicMs());
    this.#hasLeft = true;
    const reason = await whyEnded(this);
    this.refuse(reason === null ? fault : faults.replicaEnded(this.about.runId, reason));
  }

  /**
   * Starts the call if `mayStart` allows that. Waits until `begin` has returned, since the call
   * must not leave its app before then.
   */
  async #startIf(mayStart: NonNullable<PlainAbout["mayStart"]>, slot: ReplicaSlot): Promise<void> {
    this.#isStarting = true;
    try {
      await Promise.resolve();
      if (this.#isOver) return;
      const isAllowed = await mayStart(slot.replica);
      this.#isStarting = false;
      if (isAllowed && !this.#isOver) this.#start(slot, this.#parts.monotonicMs());
    } catch (error) {
      const { runId } = this.about;
      this.#parts.log.error({ err: error, runId }, "the call of a run could not begin");
      this.fail(faults.internal(runId, error));
    }
  }

  #start(slot: ReplicaSlot, nowMs: number): void {
    this.#tries++;
    const requestKind = { isHead: this.about.method === "HEAD", isUpgrade: false };
    const connection = slot.pool.take(this, requestKind, nowMs);
    this.#connection = connection;
    this.#isReused = connection.isReused;
    if (!connection.isConnecting) this.#send(connection);
  }

  #send(connection: ReplicaConnection): void {
    const { client, method, path, fields, lines, runId } = this.about;
    const { contentLength, isChunked } = fields;
    let framing = "";
    if (isChunked) framing = "Transfer-Encoding: chunked\r\n";
    else if (contentLength !== -1) framing = `Content-Length: ${contentLength}\r\n`;
    const head = `${method} ${path} HTTP/1.1\r\n${lines}X-Request-Id: ${runId}\r\n${framing}`;
    this.#body = client.send(connection, head, this);
  }

  /**
   * Sends the call again if that is safe: the replica has seen nothing of the call, or only a head
   * that may be repeated. False: the call cannot be sent again.
   */
  #tryAgain(loss: Loss): boolean {
    const { slot } = this;
    if (slot === null || this.#body !== null) return false;
    const { method, mayStart } = this.about;
    // The call of a run gives up after the last try, because each start of a run is recorded, and
    // the whole run is tried again later. Any other call moves on to the next replica.
    const isLastTry = this.#tries >= triesMax;
    const givesUp = isLastTry && mayStart !== null;
    if (loss.kind === "unreachable" && !givesUp) {
      this.#app.move(this);
      return true;
    }
    if (isLastTry) return false;
    const isIdleRace = this.#isReused && !loss.hasAnswered && loss.kind === "closed";
    const isRepeatable = this.requestBytes === 0 && repeatableMethods.has(method);
    if (!isIdleRace || !isRepeatable) return false;
    this.#tries++;
    this.#isReused = false;
    const requestKind = { isHead: method === "HEAD", isUpgrade: false };
    this.#connection = slot.pool.takeNew(this, requestKind, this.#parts.monotonicMs());
    return true;
  }

  /** Ends the call with the fault, in any state. */
  fail(fault: Fault): void {
    if (this.#isOver) return;
    const nowMs = this.#parts.monotonicMs();
    this.fault = fault;
    this.#body?.stop();
    this.#leave(nowMs);
    if (this.#head === null) {
      this.refuse(fault);
      return;
    }
    this.#finish("cut", nowMs);
    this.about.client.destroy(fault);
  }

  /** Closes the connection, and gives up the slot or the position in the line. */
  #leave(nowMs: number): void {
    this.#connection?.destroy();
    this.#connection = null;
    if (!this.#hasLeft) this.#app.leave(this, nowMs);
  }

  /** Gives back the connection; `head` says for how long the replica keeps it open, if at all. */
  #release(connection: ReplicaConnection, head: AnswerHead, nowMs: number): void {
    const { slot } = this;
    if (slot === null || !head.keepsOpen) {
      connection.destroy();
      return;
    }
    const untilMs = nowMs + idleMs(this.live.settings.runtime, head.idleSeconds);
    slot.pool.giveBack(connection, untilMs, nowMs);
  }

  /** Counts and reports the end of the call. */
  #finish(outcome: CallOutcome, nowMs: number): void {
    this.#isOver = true;
    const { meter } = this.#app;
    this.lastSlot?.tally.count(outcome, this.status, nowMs);
    if (outcome === "client_gone") meter.clientGoneTotal++;
    else if (outcome === "cut") meter.cutTotal++;
    else meter.answered(this.status ?? 0, nowMs - this.arrivedAtMs);
    this.#parts.onEnd?.(this, outcome);
  }
}
