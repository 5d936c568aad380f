// One WebSocket: the handshake is a call like any other (line, slot, deadline); after it, bytes
// pass in both directions as they arrive, and the connection counts as a running call until it
// ends.
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Fault } from "#lib/fault.ts";
import { isTaken } from "#scheduler/replica-view.ts";
import { AdmittedCall, type CallAbout, type Live } from "./admitted-call.ts";
import type { AnswerHead } from "./answer-head.ts";
import { AnswerParser, type AnswerSink, type Piece } from "./answer-parser.ts";
import type { AppCalls } from "./app-calls.ts";
import { callTimeout, lineTimeout, replicaFailed, shownToCaller, stopping } from "./call-faults.ts";
import { cookieLines, cookiesOfApp } from "./cookies.ts";
import type { Deadlines } from "./deadlines.ts";
import type { CallOutcome } from "./finished-call.ts";
import { locationOfApp } from "./location.ts";
import { answerBytes, refusalOf, statusOf } from "./refusal.ts";
import { connectionFault } from "./replica-connection.ts";
import type { ReplicaSlot } from "./replica-slot.ts";

/** Describes the handshake. */
export type UpgradeAbout = CallAbout & {
  readonly socket: Duplex;
  /** The bytes that the client has sent after its head. */
  readonly firstBytes: Buffer;
};

export type UpgradeParts = {
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  /** Called at the end of each call that entered its app. */
  readonly onEnd: (call: UpgradeCall, outcome: CallOutcome) => void;
};

/**
 * How many bytes of the client are kept until the handshake is answered. More are not read until
 * then: clients need not send any so early.
 */
const earlyBytesMax = 65_536;
/** How long one side may continue after the other has ended. */
const closingMs = 30_000;
/** After this silence, the system probes whether the replica's machine still answers. */
const keepAliveProbeMs = 30_000;

/** One WebSocket. Call `enter()` once; the rest runs by itself. */
export class UpgradeCall extends AdmittedCall implements AnswerSink {
  override readonly about: UpgradeAbout;
  readonly #app: AppCalls;
  readonly #parts: UpgradeParts;
  readonly #parser = new AnswerParser();
  /** The client's bytes that arrived before the handshake was answered. */
  readonly #early: Buffer[] = [];
  /** The connection to the replica; null: the call waits for a replica. */
  #replica: Socket | null = null;
  /** The replica has switched protocols: bytes pass in both directions. */
  #isSwitched = false;
  #isOver = false;

  constructor(
    about: UpgradeAbout,
    app: AppCalls,
    live: Live,
    arrivedAtMs: number,
    parts: UpgradeParts,
  ) {
    super(arrivedAtMs, live);
    this.about = about;
    this.#app = app;
    this.#parts = parts;
  }

  /** Enters the app; the call runs by itself from here. */
  enter(): void {
    const { socket, firstBytes } = this.about;
    this.#keepEarly(firstBytes);
    socket.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    socket.on("drain", () => this.#replica?.resume());
    socket.on("end", () => this.#clientEnded());
    socket.on("close", () => this.#finish("client_gone"));
    const fault = this.#app.enter(this);
    if (fault !== null) this.refuse(fault);
  }

  override begin(slot: ReplicaSlot): void {
    this.lastSlot = slot;
    const replica = connect({
      ...slot.replica.address,
      noDelay: true,
      allowHalfOpen: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveProbeMs,
    });
    this.#replica = replica;
    let isConnected = false;
    replica.on("connect", () => {
      // If another program listens on the replica's address, it must get no byte of the call.
      if (isTaken(slot.replica.address)) return this.#moveOn(replica);
      isConnected = true;
      this.#send(replica);
    });
    replica.on("data", (chunk: Buffer) => this.#fromReplica(chunk));
    replica.on("drain", () => this.about.socket.resume());
    replica.on("end", () => this.#replicaEnded());
    replica.on("error", (error) => {
      if (isConnected) this.#fail(connectionFault(error));
      else this.#moveOn(replica);
    });
    replica.on("close", () => {
      if (this.#replica === replica) this.#fail("the replica closed the connection");
    });
  }

  override refuse(fault: Fault): void {
    if (this.#isOver) return;
    this.fault = fault;
    this.status = statusOf(fault);
    const shown = shownToCaller(fault, this.live);
    this.about.socket.end(answerBytes(refusalOf(shown, this.about.runId), { isLast: true }));
    this.#finish("refused");
  }

  override onDeadline(): void {
    // After the switch, only the deadline of `#expectEnd` is set.
    if (this.#isSwitched) {
      this.#finish("answered");
      return;
    }
    const fault = this.isInLine ? lineTimeout() : callTimeout(this.live);
    this.breakOff(fault);
  }

  /** Ends the call in any state. The client gets `fault`, unless an answer of the app has begun. */
  breakOff(fault: Fault): void {
    if (this.#isOver) return;
    if (this.status === null) return this.refuse(fault);
    this.fault = fault;
    this.#finish("cut");
  }

  /** Ends the call when the platform stops. Before the switch, the client gets the reason. */
  stop(): void {
    if (this.#isSwitched) this.#finish("answered");
    else this.breakOff(stopping());
  }

  onInformation(): void {
    // Informational answers are dropped: WebSocket clients may not expect any.
  }

  onHead(head: AnswerHead): void {
    const { socket, runId, lines, rootPath } = this.about;
    this.status = head.status;
    const isSwitch = head.status === 101;
    const cookies = cookiesOfApp(head.cookies, rootPath);
    // A chunked body is passed on decoded: the end of the connection marks the end of the body.
    let text = `${head.text}X-Request-Id: ${runId}\r\n${cookieLines(cookies)}`;
    if (head.location !== null) text += `Location: ${locationOfApp(head.location, lines)}\r\n`;
    // An app that names no protocol has switched to the one that was asked for.
    const protocol = head.upgrade ?? "websocket";
    if (isSwitch) text += `Connection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;
    else text += "Connection: close\r\n\r\n";
    socket.write(text, "latin1");
    if (isSwitch) this.#switch();
  }

  onPiece(piece: Piece): void {
    this.answerBytes += piece.length;
    if (!this.about.socket.write(piece, "latin1")) this.#replica?.pause();
  }

  /** Called when the replica has refused the handshake and its whole answer is passed on. */
  onEnd(): void {
    this.about.socket.end();
    this.#finish("answered");
  }

  /**
   * Makes the call wait for the next replica: this one cannot be reached and has seen nothing of
   * the call.
   */
  #moveOn(replica: Socket): void {
    replica.destroy();
    if (this.#isOver || this.#replica !== replica) return;
    this.#replica = null;
    this.#app.move(this);
  }

  #send(replica: Socket): void {
    const { path, lines, runId } = this.about;
    this.#parser.expect({ isHead: false, isUpgrade: true }, this);
    const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    replica.write(
      `GET ${path} HTTP/1.1\r\n${lines}X-Request-Id: ${runId}\r\n${upgrade}\r\n`,
      "latin1",
    );
  }

  #switch(): void {
    this.#isSwitched = true;
    this.#parts.deadlines.clear(this);
    for (const chunk of this.#early.splice(0)) this.#replica?.write(chunk);
    this.about.socket.resume();
  }

  #fromClient(chunk: Buffer): void {
    const { socket } = this.about;
    if (!this.#isSwitched) return this.#keepEarly(chunk);
    this.requestBytes += chunk.length;
    if (this.#replica?.write(chunk) === false) socket.pause();
  }

  /** Keeps the bytes until the replica has switched protocols. */
  #keepEarly(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#early.push(chunk);
    this.requestBytes += chunk.length;
    if (this.requestBytes > earlyBytesMax) this.about.socket.pause();
  }

  #fromReplica(chunk: Buffer): void {
    if (this.#isOver) return;
    if (!this.#isSwitched) {
      this.#parser.push(chunk, chunk.length);
      const { problem, rest } = this.#parser;
      if (problem !== undefined) this.#fail(problem);
      else if (rest !== undefined) this.#toClient(rest);
      return;
    }
    this.#toClient(chunk);
  }

  #toClient(chunk: Buffer): void {
    this.answerBytes += chunk.length;
    if (!this.about.socket.write(chunk)) this.#replica?.pause();
  }

  /** Called when the client has ended its side. Before the switch this ends the call. */
  #clientEnded(): void {
    if (this.#isOver) return;
    if (!this.#isSwitched) return this.#finish("client_gone");
    this.#replica?.end();
    this.#expectEnd();
  }

  #replicaEnded(): void {
    // If the end of the connection is the regular end of an answer, `finish` has called `onEnd`.
    if (this.#isOver || this.#parser.finish()) return;
    if (!this.#isSwitched) return this.#fail("the replica closed the connection");
    this.about.socket.end();
    this.#expectEnd();
  }

  /** Ends the call after a while, if the other side does not end it before. */
  #expectEnd(): void {
    this.#parts.deadlines.clear(this);
    this.#parts.deadlines.set(this, this.#parts.monotonicMs() + closingMs);
  }

  /** Called when the connection to the replica broke. After the switch, that is no fault. */
  #fail(reason: string): void {
    if (this.#isSwitched) this.#finish("answered");
    else this.breakOff(replicaFailed(this.about.runId, reason));
  }

  #finish(outcome: CallOutcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { socket } = this.about;
    if (this.slot !== null || this.isInLine) this.#app.leave(this, this.#parts.monotonicMs());
    this.#replica?.destroy();
    // Data that waits to be sent to the client is still sent, unless the call is to end at once.
    if (socket.writableFinished || outcome === "client_gone" || outcome === "cut") socket.destroy();
    else {
      socket.once("finish", () => socket.destroy());
      socket.end();
    }
    // After the switch, the call has its answer, whoever ends the connection.
    const shownOutcome = this.#isSwitched ? "answered" : outcome;
    const nowMs = this.#parts.monotonicMs();
    const { meter } = this.#app;
    if (shownOutcome === "client_gone") meter.clientGoneTotal++;
    else if (shownOutcome === "cut") meter.cutTotal++;
    else meter.answered(this.status ?? 0, nowMs - this.arrivedAtMs);
    this.lastSlot?.tally.count(shownOutcome, this.status, nowMs);
    this.#parts.onEnd(this, shownOutcome);
  }
}
