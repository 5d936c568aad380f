// A client's connection as long as it makes plain calls, one after the other: they are parsed and
// answered on the socket itself. The first input that is not a plain call moves the connection to
// Node's HTTP server for good, together with that input.
import type { Socket } from "node:net";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { Peer, TrustedProxies } from "#lib/trusted-proxies.ts";
import { addedTo, linesUnder, nothingAdded, type AddedFields } from "./added-fields.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { ClientUser, HeadGiven, HttpClient } from "./client.ts";
import { cookieLines } from "./cookies.ts";
import { Timed, type Deadlines } from "./deadlines.ts";
import { PlainReader, type PlainRequest } from "./plain-request.ts";
import { answerBytes, refusalOf, type OwnAnswer } from "./refusal.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { BodyUser } from "./request-body.ts";
import { dropConnection } from "./slow-clients.ts";

/** The parts that all plain connections share. */
export type PlainParts = {
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  /** The `Date` line of an answer, with its line end. */
  readonly dateLine: () => string;
  /** Handles one call. */
  readonly take: (client: PlainConnection, request: PlainRequest) => void;
  readonly trustedProxies: TrustedProxies;
  /** Passes the connection, with the bytes already read, to Node's HTTP server. */
  readonly handOver: (connection: PlainConnection, socket: Socket, bytes: Buffer) => void;
  readonly onClose: (connection: PlainConnection) => void;
  /** How long a new connection may stay silent. */
  readonly firstMs: number;
  /** How long a connection may idle between calls. */
  readonly idleMs: number;
  /** How long a client may read nothing of its answer. */
  readonly stalledMs: number;
};

const noBody = "";
/** How long to wait for the end of a body, which many clients send right after the head. */
const bodyMs = 20;
/** The maximum number of pieces of a call: for each piece, all earlier ones are parsed again. */
const bodyPiecesMax = 4;

/**
 * One connection. `isClosing` makes the current answer its last, or the next one if the current has
 * begun.
 */
export class PlainConnection extends Timed implements HttpClient {
  readonly peer: Peer;
  method = "";
  isClosing = false;
  added: AddedFields = nothingAdded;
  readonly #socket: Socket;
  readonly #parts: PlainParts;
  readonly #reader = new PlainReader();
  /** The body of the current call, one character per byte. */
  #body = noBody;
  /** The call that is running; null: none is, or its client is gone. */
  #user: ClientUser | null = null;
  /** True while a call is running. */
  #isBusy = false;
  /** True when the answer has said that it is the last. */
  #isLast = false;
  /** The head of the answer, until it is written together with the first bytes after it. */
  #head = "";
  /** True if the body of the answer is sent in chunks, since its length is not known. */
  #isChunked = false;
  /** The number of calls so far. */
  #calls = 0;
  /** The number of calls at the last deadline. */
  #callsAtDeadline = 0;
  /** The bytes of a call whose body is incomplete. */
  #begun: Buffer | null = null;
  /** How many pieces of that call have arrived. */
  #begunPieces = 0;
  /** Bytes received while a call was running. */
  #early: Buffer | null = null;
  /** True while reading is paused until the client has taken its answer. */
  #isHeldUp = false;
  /** True once the socket is closed, or another part handles it. */
  #isDetached = false;
  /** When the connection was opened, or its latest call ended. */
  #silentSinceMs: number;

  readonly #onData = (chunk: Buffer): void => this.#data(chunk);
  readonly #onDrain = (): void => this.#drained();
  readonly #onEnd = (): void => this.#ended();
  readonly #onClose = (): void => this.#closed();
  /** Node closes the socket after an error, so `#onClose` does all there is to do. */
  readonly #onError = (): void => undefined;
  /** The client has read nothing of its answer for too long. */
  readonly #onTimeout = (): void => dropConnection(this.#socket);

  constructor(socket: Socket, parts: PlainParts) {
    super();
    this.#socket = socket;
    this.#parts = parts;
    this.peer = parts.trustedProxies.peerOf(socket);
    socket.on("data", this.#onData);
    socket.on("drain", this.#onDrain);
    socket.on("end", this.#onEnd);
    socket.on("close", this.#onClose);
    socket.on("error", this.#onError);
    socket.on("timeout", this.#onTimeout);
    this.#silentSinceMs = parts.monotonicMs();
    parts.deadlines.set(this, this.#silentSinceMs + parts.firstMs);
  }

  get isGone(): boolean {
    return this.#socket.destroyed;
  }

  use(user: ClientUser): void {
    this.#user = user;
  }

  send(connection: ReplicaConnection, head: string, user: BodyUser): null {
    user.requestBytes = this.#body.length;
    connection.write(`${head}\r\n${this.#body}`);
    return null;
  }

  readBody(): Promise<Buffer> {
    return Promise.resolve(Buffer.from(this.#body, "latin1"));
  }

  information(head: AnswerHead): void {
    this.#socket.write(`${head.text}\r\n`, "latin1");
  }

  head(head: AnswerHead, runId: RunId, { cookies, location }: HeadGiven): void {
    const added = addedTo(head, this.added);
    const hasLength = head.body === "length" || head.body === "none";
    this.#isChunked = !hasLength;
    const framing = hasLength ? "" : "Transfer-Encoding: chunked\r\n";
    const date = head.hasDate ? "" : this.#parts.dateLine();
    this.#isLast = this.isClosing;
    const connection = this.#isLast ? "Connection: close\r\n" : "";
    const redirect = location === null ? "" : `Location: ${location}\r\n`;
    const addedLines = `${date}X-Request-Id: ${runId}\r\n${cookieLines(cookies)}${redirect}${added.lines}${connection}`;
    this.#head = `${linesUnder(head.text, added)}${framing}${addedLines}\r\n`;
  }

  piece(piece: Piece, isLast: boolean): boolean {
    const isDrained = this.#isChunked ? this.#writeChunk(piece) : this.#write(piece);
    // Whenever the socket sends bytes, this timeout begins again.
    if (!isDrained) this.#socket.setTimeout(this.#parts.stalledMs);
    if (isLast) this.#finish();
    return isDrained;
  }

  flush(): void {
    if (this.#head !== "") this.#write("");
  }

  end(): void {
    if (this.#isChunked) this.#write("0\r\n\r\n");
    else this.flush();
    this.#finish();
  }

  refuse(fault: Fault, runId: RunId): void {
    this.answer(refusalOf(fault, runId));
  }

  answer({ status, fields, body }: OwnAnswer): void {
    this.#isLast = this.isClosing;
    const allFields = [...fields, ...this.added.list];
    const options = {
      isLast: this.#isLast,
      isHead: this.method === "HEAD",
      dateLine: this.#parts.dateLine(),
    };
    this.#socket.write(answerBytes({ status, fields: allFields, body }, options));
    this.#finish();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /**
   * Called while the platform stops: closes the connection if it has been silent since `sinceMs`.
   */
  closeSilent(sinceMs: number): void {
    const isSilent = !this.#isBusy && this.#begun === null && this.#silentSinceMs <= sinceMs;
    if (isSilent) this.#socket.destroy();
  }

  /**
   * Called when a body is slow (Node's server then streams it), or to close a silent connection.
   * Silence is checked by one periodic deadline instead of one per call, so an idle connection is
   * closed after one to two times `idleMs`.
   */
  override onDeadline(nowMs: number): void {
    const begun = this.#begun;
    this.#begun = null;
    if (begun !== null) {
      this.#handOver(begun);
    } else if (this.#isBusy || this.#calls !== this.#callsAtDeadline) {
      this.#callsAtDeadline = this.#calls;
      this.#parts.deadlines.set(this, nowMs + this.#parts.idleMs);
    } else {
      this.#socket.destroy();
    }
  }

  #data(chunk: Buffer): void {
    if (this.#isBusy) {
      this.#early = this.#early === null ? chunk : Buffer.concat([this.#early, chunk]);
      this.#socket.pause();
      return;
    }
    const bytes = this.#begun === null ? chunk : this.#withBegun(this.#begun, chunk);
    const request = this.#reader.read(bytes);
    if (request === null) {
      this.#handOver(bytes);
      return;
    }
    // Only the end of the call's body is missing.
    if (request === "unfinished") {
      this.#begunPieces++;
      if (this.#begunPieces === bodyPiecesMax) return this.#handOver(bytes);
      this.#begun = bytes;
      this.#setDeadline(this.#parts.monotonicMs() + bodyMs);
      return;
    }
    this.#isBusy = true;
    this.#begunPieces = 0;
    this.#calls++;
    this.method = request.method;
    this.#body = request.body;
    if (request.fields.closes) this.isClosing = true;
    this.#parts.take(this, request);
  }

  /** The begun call with its next bytes. The deadline is again that of an idle connection. */
  #withBegun(begun: Buffer, chunk: Buffer): Buffer {
    this.#begun = null;
    this.#setDeadline(this.#parts.monotonicMs() + this.#parts.idleMs);
    return Buffer.concat([begun, chunk]);
  }

  #setDeadline(atMs: number): void {
    this.#parts.deadlines.clear(this);
    this.#parts.deadlines.set(this, atMs);
  }

  #write(piece: Piece): boolean {
    const head = this.#head;
    this.#head = "";
    if (typeof piece === "string") return this.#socket.write(head + piece, "latin1");
    if (head !== "") this.#socket.write(head, "latin1");
    return this.#socket.write(piece);
  }

  #writeChunk(piece: Piece): boolean {
    if (piece.length === 0) return true;
    const size = `${piece.length.toString(16)}\r\n`;
    if (typeof piece === "string") return this.#write(`${size}${piece}\r\n`);
    this.#socket.cork();
    this.#write(size);
    this.#socket.write(piece);
    const isDrained = this.#socket.write("\r\n", "latin1");
    this.#socket.uncork();
    return isDrained;
  }

  /** Called when the answer is complete. */
  #finish(): void {
    this.#user = null;
    this.#isBusy = false;
    this.#body = noBody;
    this.#silentSinceMs = this.#parts.monotonicMs();
    if (this.#isLast) {
      // Further calls are not parsed: nobody would get their answers.
      this.#socket.off("data", this.#onData);
      this.#socket.resume();
      this.#socket.end(() => this.#socket.destroy());
    } else if (this.#early !== null) {
      // Node's server handles a client that sends its next call before it has this call's answer.
      process.nextTick(() => this.#handOverEarly());
    } else if (this.#socket.writableNeedDrain) {
      // A client that sends requests and never reads answers would fill the memory.
      this.#isHeldUp = true;
      this.#socket.pause();
    }
  }

  #drained(): void {
    this.#socket.setTimeout(0);
    this.#user?.onClientDrain();
    if (!this.#isHeldUp) return;
    this.#isHeldUp = false;
    this.#socket.resume();
  }

  #handOverEarly(): void {
    const early = this.#early;
    this.#early = null;
    if (early !== null && !this.#socket.destroyed) this.#handOver(early);
  }

  #handOver(bytes: Buffer): void {
    this.#detach();
    this.#parts.handOver(this, this.#socket, bytes);
  }

  /**
   * Called when the client half-closes the connection, which ends it, as in Node's server. A
   * complete answer is still sent; a running call loses its client.
   */
  #ended(): void {
    if (!this.#isBusy) {
      this.#socket.end(() => this.#socket.destroy());
      return;
    }
    this.#user?.onClientGone();
    this.#user = null;
    this.#socket.destroy();
  }

  #closed(): void {
    this.#detach();
    this.#user?.onClientGone();
    this.#user = null;
    this.#parts.onClose(this);
  }

  #detach(): void {
    if (this.#isDetached) return;
    this.#isDetached = true;
    this.#parts.deadlines.clear(this);
    const socket = this.#socket;
    socket.off("data", this.#onData);
    socket.off("drain", this.#onDrain);
    socket.off("end", this.#onEnd);
    socket.off("close", this.#onClose);
    socket.off("error", this.#onError);
    socket.off("timeout", this.#onTimeout);
  }
}
