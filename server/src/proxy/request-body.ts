// Sends a call's head and body to its replica as the body arrives: nothing is stored, and
// backpressure from the replica pauses the client. A small body goes out in one write with the
// head.
import type { IncomingMessage } from "node:http";
import { fieldKind } from "./fields.ts";
import type { ReplicaConnection } from "./replica-connection.ts";

/** The call that receives the events of its body. */
export interface BodyUser {
  /** The maximum size of the body. */
  readonly bodyBytesMax: number;
  /** Body bytes sent so far, without framing. */
  requestBytes: number;
  /** The body is longer than `bodyBytesMax`. */
  onBodyTooLarge(): void;
}

export type RequestBodyOptions = {
  readonly request: IncomingMessage;
  readonly connection: ReplicaConnection;
  /** The whole head, including the empty line. */
  readonly head: string;
  readonly isChunked: boolean;
  /** The client waits for permission to send its body: the head is sent alone. */
  readonly expectsContinue: boolean;
  readonly user: BodyUser;
};

/** Smaller pieces are written as text together with their framing, in one write. */
const textBytesMax = 8_192;

/** One body being sent. Call `start()` once; `stop()` when the replica wants no more of it. */
export class RequestBody {
  isSent = false;
  readonly #options: RequestBodyOptions;
  #head: string;
  #isStopped = false;
  #bytes = 0;

  constructor(options: RequestBodyOptions) {
    this.#options = options;
    this.#head = options.head;
  }

  start(): void {
    const { request, expectsContinue } = this.#options;
    request.on("data", (chunk: Buffer) => this.#data(chunk));
    request.on("end", () => this.#end());
    // The end of its answer shows that a client is gone.
    request.on("error", () => undefined);
    if (expectsContinue) this.#flush();
    // Data that arrived with the head is processed before this; the head waits no longer than that.
    else process.nextTick(() => this.#flush());
  }

  /** The replica accepts more. */
  onDrain(): void {
    if (!this.#isStopped) this.#options.request.resume();
  }

  /**
   * Sends nothing more; reads and drops the rest, as long as `SlowBodies` allows: a reset would
   * cost the client its answer.
   */
  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#options.request.resume();
  }

  #flush(): void {
    if (this.#head === "" || this.#isStopped) return;
    this.#options.connection.write(this.#head);
    this.#head = "";
  }

  #data(chunk: Buffer): void {
    const { request, connection, isChunked, user } = this.#options;
    if (this.#isStopped) return;
    this.#bytes += chunk.length;
    if (this.#bytes > user.bodyBytesMax) {
      user.onBodyTooLarge();
      return;
    }
    user.requestBytes = this.#bytes;
    const before = isChunked ? `${this.#head}${chunk.length.toString(16)}\r\n` : this.#head;
    const after = isChunked ? "\r\n" : "";
    this.#head = "";
    let hasRoom: boolean;
    if (chunk.length <= textBytesMax) {
      hasRoom = connection.write(before + chunk.toString("latin1") + after);
    } else {
      if (before !== "") connection.write(before);
      hasRoom = connection.write(chunk);
      if (after !== "") hasRoom = connection.write(after);
    }
    if (!hasRoom) request.pause();
  }

  #end(): void {
    if (this.#isStopped) return;
    const { connection, isChunked, request } = this.#options;
    if (isChunked) connection.write(`${this.#head}0\r\n${trailerLines(request.rawTrailers)}\r\n`);
    else this.#flush();
    this.#head = "";
    this.isSent = true;
  }
}

/** Without fields that concern the proxy: a trailer must not say what the head may not. */
function trailerLines(rawTrailers: readonly string[]): string {
  let lines = "";
  for (let index = 0; index + 1 < rawTrailers.length; index += 2) {
    const name = rawTrailers[index] ?? "";
    if (fieldKind(name) === "pass") lines += `${name}: ${rawTrailers[index + 1]}\r\n`;
  }
  return lines;
}
