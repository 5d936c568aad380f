// Finds slow clients that hold connections of Node's HTTP server: clients that send a body byte by
// byte where nothing else bounds its time (uploads may take long, but must go on), and clients that
// do not read their answer. Node bounds the time of heads, and the deadline of a call bounds the
// time of its body until the call is answered.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { Timed, type Deadlines } from "./deadlines.ts";
import { slowBody, type OpenAnswers } from "./malformed.ts";

export type SlowClientsParts = {
  readonly answers: OpenAnswers;
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  /**
   * How long a body, and each further MiB of it, may take if its request is no call, or is a call
   * that is already answered.
   */
  readonly bodyMs: number;
};

/** How much more of a body must arrive within `bodyMs`. */
const progressBytes = 1_048_576;

/**
 * Closes connections whose client reads nothing for `stalledMs`. Sent bytes restart the timeout;
 * bytes that are unsent when it ends are dropped.
 */
export function closeStalled(server: Server, answers: OpenAnswers, stalledMs: number): void {
  server.timeout = stalledMs;
  // Node alone would also close connections whose answer has not begun, but apps may take hours.
  server.on("timeout", (socket: Socket) => {
    if (socket.writableLength > 0) dropConnection(socket);
    else if (!answers.isOpen(socket)) socket.destroy();
  });
}

/**
 * Closes the connection, and drops what its client has not read. An encrypted connection cannot be
 * reset, so the system still tries to send for a while what it holds.
 */
export function dropConnection(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Tracks the bodies being received. */
export class SlowBodies {
  readonly #parts: SlowClientsParts;

  constructor(parts: SlowClientsParts) {
    this.#parts = parts;
  }

  /** Call it for each request when its head has been read. */
  watch(request: IncomingMessage, response: ServerResponse, isCall: boolean): void {
    const { headers } = request;
    const isChunked = headers["transfer-encoding"] !== undefined;
    const hasLength = (headers["content-length"] ?? "0") !== "0";
    if (!isChunked && !hasLength) return;
    // The deadline of a call bounds its body until the call is answered.
    if (isCall) response.once("finish", () => this.#bound(request));
    else this.#bound(request);
  }

  /** From now on refuses the body if it neither ends nor grows enough within `bodyMs`. */
  #bound(request: IncomingMessage): void {
    if (request.complete || request.destroyed) return;
    const { answers, deadlines, monotonicMs, bodyMs } = this.#parts;
    let received = request.socket.bytesRead;
    const body = new SlowBody(() => {
      if (request.complete) return;
      const before = received;
      received = request.socket.bytesRead;
      if (received - before >= progressBytes) deadlines.set(body, monotonicMs() + bodyMs);
      else answers.refuse(slowBody(bodyMs), request.socket);
    });
    deadlines.set(body, monotonicMs() + bodyMs);
    request.once("close", () => deadlines.clear(body));
  }
}

/** One body; the constructor is told what happens at its deadline. */
class SlowBody extends Timed {
  override readonly onDeadline: () => void;

  constructor(onDeadline: () => void) {
    super();
    this.onDeadline = onDeadline;
  }
}
