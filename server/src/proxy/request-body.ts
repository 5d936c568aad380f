// Sends a call's head and body to its replica while the body arrives. Stores nothing: when the
// replica reads slowly, the client is paused. A small body is sent in one write with the head.
import type { Readable } from "node:stream";
import { fieldKind } from "./fields.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { RequestFields } from "./request-fields.ts";

/** The call, which is notified about its body. */
export interface BodyUser {
  /** The maximum size of the body. */
  readonly bodyBytesMax: number;
  /** Body bytes sent so far, without framing. */
  requestBytes: number;
  /** Called when the body is longer than `bodyBytesMax`. */
  onBodyTooLarge(): void;
}

type SentBody = {
  /** The body as it arrives. */
  readonly request: Readable;
  /** Returns the trailers, once the body has ended: name, value, name, value … */
  readonly trailers: () => readonly string[];
  readonly connection: ReplicaConnection;
  readonly user: BodyUser;
};

type RequestBodyOptions = SentBody & {
  /** The whole head, including the empty line. */
  readonly head: string;
  readonly isChunked: boolean;
  /** The client waits for permission to send its body, so the head is sent alone. */
  readonly expectsContinue: boolean;
};

/** Pieces up to this size are written as text, in one write with their framing. */
const textBytesMax = 8_192;

/**
 * Sends the head of a call, and its body as it arrives. `head` lacks only a line for `Expect` and
 * the empty line. Null: there is no body.
 */
export function sendBody(
  head: string,
  { fields, ...sent }: SentBody & { readonly fields: RequestFields },
): RequestBody | null {
  const { contentLength, isChunked, expectsContinue } = fields;
  if (contentLength <= 0 && !isChunked) {
    sent.connection.write(`${head}\r\n`);
    return null;
  }
  const expectLine = expectsContinue ? "Expect: 100-continue\r\n" : "";
  const fullHead = `${head}${expectLine}\r\n`;
  const body = new RequestBody({ ...sent, head: fullHead, isChunked, expectsContinue });
  body.start();
  return body;
}

/** One body being sent. Call `start()` once; `stop()` when the replica wants no more of it. */
export class RequestBody {
  /** The whole body was given to the connection. */
  isSent = false;
  readonly #options: RequestBodyOptions;
  /** The head, until it is sent. */
  #head: string;
  #isStopped = false;
  /** How many bytes of the body have arrived. */
  #bytes = 0;

  constructor(options: RequestBodyOptions) {
    this.#options = options;
    this.#head = options.head;
  }

  start(): void {
    const { request, expectsContinue } = this.#options;
    request.on("data", (chunk: Buffer) => this.#data(chunk));
    request.on("end", () => this.#end());
    // An error needs no handling: the end of the answer shows that the client is gone.
    request.on("error", () => undefined);
    if (expectsContinue) this.#sendHead();
    // One tick later, so that data which arrived together with the head is sent with it.
    else process.nextTick(() => this.#sendHead());
  }

  /** To be called when the replica accepts more. */
  onDrain(): void {
    if (!this.#isStopped) this.#options.request.resume();
  }

  /**
   * Sends nothing more. Reads and drops the rest of the body as long as `SlowBodies` allows, since
   * a client whose connection is reset would not get its answer.
   */
  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#options.request.resume();
  }

  #sendHead(): void {
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
    // The head, if it is not sent yet, and the framing of a chunk.
    const before = isChunked ? `${this.#head}${chunk.length.toString(16)}\r\n` : this.#head;
    const after = isChunked ? "\r\n" : "";
    this.#head = "";
    let acceptsMore: boolean;
    if (chunk.length <= textBytesMax) {
      acceptsMore = connection.write(before + chunk.toString("latin1") + after);
    } else {
      if (before !== "") connection.write(before);
      acceptsMore = connection.write(chunk);
      if (after !== "") acceptsMore = connection.write(after);
    }
    if (!acceptsMore) request.pause();
  }

  #end(): void {
    if (this.#isStopped) return;
    const { connection, isChunked, trailers } = this.#options;
    if (isChunked) connection.write(`${this.#head}0\r\n${trailerLines(trailers())}\r\n`);
    else this.#sendHead();
    this.#head = "";
    this.isSent = true;
  }
}

/** The trailers as lines. Fields that the proxy does not simply pass on in a head are left out. */
function trailerLines(rawTrailers: readonly string[]): string {
  let lines = "";
  for (let index = 0; index + 1 < rawTrailers.length; index += 2) {
    const name = rawTrailers[index] ?? "";
    if (fieldKind(name) === "pass") lines += `${name}: ${rawTrailers[index + 1]}\r\n`;
  }
  return lines;
}
