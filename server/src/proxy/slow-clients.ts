// Clients that node's HTTP server reads and that hold their connection by being slow: those that send a body byte by byte
// where nothing else bounds it, and those that do not take what they are answered. Heads are bounded by node itself, bodies
// of calls by the deadlines of calls for as long as those are not answered.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Timed, type Deadlines } from "./deadlines.ts";
import { slowBody, type OpenAnswers } from "./malformed.ts";

export type SlowClientsParts = {
  readonly answers: OpenAnswers;
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
  /** How long a body may take that is not a call's, or whose call is answered. */
  readonly bodyMs: number;
};

/** Closes connections whose client takes nothing of its answer for `stalledMs`. Bytes that leave begin the time anew; what is left is dropped. */
export function closeStalled(server: Server, answers: OpenAnswers, stalledMs: number): void {
  server.timeout = stalledMs;
  // Node would close those too whose answer has not begun: apps may take hours.
  server.on("timeout", (socket: Socket) => {
    if (socket.writableLength > 0) socket.resetAndDestroy();
    else if (!answers.isOpen(socket)) socket.destroy();
  });
}

/** Bodies on their way. */
export class SlowBodies {
  readonly #parts: SlowClientsParts;

  constructor(parts: SlowClientsParts) {
    this.#parts = parts;
  }

  /** To be told of each request when its head is read. */
  watch(request: IncomingMessage, response: ServerResponse, isCall: boolean): void {
    const { headers } = request;
    if (headers["transfer-encoding"] === undefined && (headers["content-length"] ?? "0") === "0") return;
    if (isCall) response.once("finish", () => this.#bound(request));
    else this.#bound(request);
  }

  #bound(request: IncomingMessage): void {
    if (request.complete || request.destroyed) return;
    const { answers, deadlines, monotonicMs, bodyMs } = this.#parts;
    const body = new SlowBody(() => {
      if (!request.complete) answers.refuse(slowBody(bodyMs), request.socket);
    });
    deadlines.set(body, monotonicMs() + bodyMs);
    request.once("close", () => deadlines.clear(body));
  }
}

class SlowBody extends Timed {
  override readonly onDeadline: () => void;

  constructor(onDeadline: () => void) {
    super();
    this.onDeadline = onDeadline;
  }
}
