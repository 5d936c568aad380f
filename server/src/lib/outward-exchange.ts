// Sends one request over one connection, and reads the beginning of its answer. Once the head has
// arrived the answer counts, even if the body fails: the receiver has decided, and the body is only
// shown to people.
import {
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "./clock.ts";
import { codeOf, OutwardRefused, reasonOf } from "./outward-reasons.ts";

/** The request, and its limits. */
export type ExchangeOptions = {
  readonly protocol: string;
  /** Method, host, path, headers and agent. */
  readonly request: RequestOptions;
  readonly body: Buffer;
  readonly clock: Clock;
  /** The timeout of the whole exchange. */
  readonly timeoutMs: number;
  readonly answerBytesMax: number;
};

/**
 * The outcome of an exchange. `isStale`: the other side closed a kept connection just as it was
 * reused, and sent no answer.
 */
export type Exchange =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** The Retry-After header as received. */
      readonly retryAfter: string | null;
      readonly firstBytes: Buffer;
    }
  | { readonly kind: "failed"; readonly reason: string; readonly isStale: boolean };

/** The timeout of lookup, connection and TLS; beyond it, a receiver counts as unreachable. */
const connectMs = 10_000;
/** The timeout from the head to the end of the body, unless the exchange's timeout is earlier. */
const bodyMs = 5_000;
/**
 * How much is read and dropped after the kept part, since a connection can be reused only when the
 * answer was read to its end.
 */
const drainBytesMax = 65_536;
const headBytesMax = 16_384;
/** The maximum number of informational answers (1xx) before the real one. */
const informationMax = 16;
/** The part of a Retry-After header that is kept. */
const retryAfterLengthMax = 100;
/** The codes of errors after which the other side may have closed the connection. */
const closedCodes = new Set(["ECONNRESET", "EPIPE"]);

/** Sends the request and waits for the answer. Never rejects. */
export function exchange(options: ExchangeOptions): Promise<Exchange> {
  return new Promise((resolve) => new RunningExchange(options, resolve).start());
}

class RunningExchange {
  readonly #options: ExchangeOptions;
  readonly #resolve: (ended: Exchange) => void;
  readonly #endsAtMs: number;
  #request: ClientRequest | undefined;
  /** The kept part of the answer's body. */
  readonly #kept: Buffer[] = [];
  /** Cancels the deadline of the exchange, or of the body once the head has arrived. */
  #cancelDeadline: () => void;
  #cancelConnect: (() => void) | undefined;
  #answer: IncomingMessage | undefined;
  /** The size of the received part of the body, including what was dropped. */
  #bodyBytes = 0;
  /** How many bytes the connection had received before this exchange, in earlier ones. */
  #bytesReadBefore = 0;
  #informationCount = 0;
  #isOver = false;

  constructor(options: ExchangeOptions, resolve: (ended: Exchange) => void) {
    this.#options = options;
    this.#resolve = resolve;
    const { clock, timeoutMs } = options;
    this.#endsAtMs = clock.monotonicMs() + timeoutMs;
    this.#cancelDeadline = clock.after(timeoutMs, () =>
      this.#fail(`no answer within ${timeoutMs} ms`),
    );
  }

  start(): void {
    const { protocol, request, body } = this.#options;
    const send = protocol === "https:" ? httpsRequest : httpRequest;
    try {
      this.#request = send({ ...request, maxHeaderSize: headBytesMax, insecureHTTPParser: false });
    } catch (error) {
      // A header contains characters that may not be sent.
      this.#fail(reasonOf(error));
      return;
    }
    this.#listen(this.#request);
    this.#request.end(body);
  }

  #listen(request: ClientRequest): void {
    request.on("socket", (socket) => this.#useSocket(socket));
    request.on("response", (answer) => this.#begin(answer));
    request.on("error", (error) => this.#onClosed(error));
    request.on("close", () =>
      this.#onClosed(new OutwardRefused("the receiver closed the connection without an answer")),
    );
    request.on("information", () => {
      this.#informationCount++;
      if (this.#informationCount > informationMax)
        this.#fail("it sent too many informational answers (1xx)");
    });
    request.on("upgrade", (_answer, socket) => {
      socket.destroy();
      this.#fail("it switched to another protocol without being asked");
    });
  }

  #useSocket(socket: Socket): void {
    this.#bytesReadBefore = socket.bytesRead;
    // A kept connection is not connecting.
    if (!socket.connecting || this.#isOver) return;
    this.#cancelConnect = this.#options.clock.after(connectMs, () =>
      this.#fail(`no connection within ${connectMs} ms`),
    );
    socket.once(socket instanceof TLSSocket ? "secureConnect" : "connect", () =>
      this.#cancelConnect?.(),
    );
  }

  #begin(answer: IncomingMessage): void {
    // Node also accepts heads with the version HTTP/0.9 or 2.0, and parses them as 1.1.
    if (answer.httpVersionMajor !== 1) return this.#fail("its answer is not HTTP/1.1");
    this.#answer = answer;
    this.#cancelDeadline();
    const { clock } = this.#options;
    const waitMs = Math.min(bodyMs, this.#endsAtMs - clock.monotonicMs());
    this.#cancelDeadline = clock.after(Math.max(0, waitMs), () => this.#finish());
    answer.on("data", (piece: Buffer) => this.#readPiece(piece));
    answer.on("error", () => this.#finish());
    answer.on("end", () => this.#finish());
    answer.on("close", () => this.#finish());
  }

  #readPiece(piece: Buffer): void {
    const { answerBytesMax } = this.#options;
    const bytesLeft = answerBytesMax - this.#bodyBytes;
    // Copy: the chunk may be a small part of a large buffer, and answers are kept for a while.
    if (bytesLeft > 0) this.#kept.push(Buffer.from(piece.subarray(0, bytesLeft)));
    this.#bodyBytes += piece.length;
    if (this.#bodyBytes > answerBytesMax + drainBytesMax) this.#finish();
  }

  #onClosed(error: unknown): void {
    if (this.#answer !== undefined) return this.#finish();
    const { reusedSocket = false, socket } = this.#request ?? {};
    // If a kept connection has received no byte in this exchange, the other side has closed it
    // before it answered.
    const isStale =
      reusedSocket &&
      closedCodes.has(codeOf(error)) &&
      (socket?.bytesRead ?? this.#bytesReadBefore) === this.#bytesReadBefore;
    this.#fail(reasonOf(error), isStale);
  }

  /** Ends the exchange with the answer, whose head has arrived. */
  #finish(): void {
    const { statusCode = 0, headers } = this.#answer ?? { headers: {} };
    const retryAfter = headers["retry-after"]?.slice(0, retryAfterLengthMax) ?? null;
    this.#end({
      kind: "answered",
      status: statusCode,
      retryAfter,
      firstBytes: Buffer.concat(this.#kept),
    });
  }

  #fail(reason: string, isStale = false): void {
    this.#end({ kind: "failed", reason, isStale });
  }

  #end(ended: Exchange): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#cancelConnect?.();
    // After a complete exchange the connection goes back to the agent; otherwise it is closed.
    const request = this.#request;
    if (this.#answer?.complete !== true || request?.writableFinished !== true) request?.destroy();
    this.#resolve(ended);
  }
}
