// A request that is accepted now and run later, as whoever keeps runs sees it: its body is read whole, within a bound and
// not too slowly, and it is answered once.
import type { IncomingMessage } from "node:http";
import type { Route } from "#apps/routes.ts";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { AsyncCall } from "./async-accept.ts";
import { asyncTooLarge } from "./call-faults.ts";
import { Timed, type Deadlines } from "./deadlines.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import type { NodeClient } from "./node-client.ts";
import type { OwnFields } from "./own-fields.ts";
import type { RequestFields } from "./request-fields.ts";

/** How slowly a body may come: so long, and a millisecond more for so many bytes (128 kbit/s). */
const slowestMs = 30_000;
const slowestBytesPerMs = 16;

/** What an async call is made of. */
export type AsyncRequestOptions = {
  readonly client: NodeClient;
  readonly clientAddress: string;
  readonly runId: RunId;
  readonly route: Route;
  readonly path: string;
  readonly webhookEndpoint: string | null;
  readonly fields: RequestFields;
  readonly own: OwnFields;
  readonly deadlines: Deadlines;
  readonly monotonicMs: () => number;
};

/** One request. */
export class AsyncRequest implements AsyncCall {
  readonly runId: RunId;
  readonly route: Route;
  readonly method: string;
  readonly path: string;
  readonly lines: string;
  readonly clientAddress: string;
  readonly webhookEndpoint: string | null;
  readonly webhookSecret: string | null;
  readonly idempotencyKey: string | null;
  readonly retries: number | null;
  readonly contentLength: number;
  readonly #options: AsyncRequestOptions;
  #isAnswered = false;

  constructor(options: AsyncRequestOptions) {
    const { client, own, fields } = options;
    this.runId = options.runId;
    this.route = options.route;
    this.method = client.method;
    this.path = options.path;
    this.lines = own.lines;
    this.clientAddress = options.clientAddress;
    this.webhookEndpoint = options.webhookEndpoint;
    this.webhookSecret = own.webhookSecret;
    this.idempotencyKey = own.idempotencyKey;
    this.retries = own.retries;
    this.contentLength = fields.isChunked ? -1 : Math.max(0, fields.contentLength);
    this.#options = options;
  }

  readBody(bytesMax: number): Promise<Buffer | Fault> {
    const { client, fields, deadlines, monotonicMs } = this.#options;
    if (this.contentLength > bytesMax) return Promise.resolve(asyncTooLarge(bytesMax));
    if (this.contentLength === 0) return Promise.resolve(Buffer.alloc(0));
    if (client.isGone) return Promise.resolve(brokenOff());
    if (fields.expectsContinue) client.giveLeave();
    return new Promise((resolve) => {
      const expectedBytes = Math.max(0, this.contentLength);
      const body = { request: client.request, bytesMax, expectedBytes, deadlines, resolve };
      new IncomingBody(body, monotonicMs()).begin();
    });
  }

  accepted(runId: RunId): void {
    if (!this.#answers()) return;
    const { response } = this.#options.client;
    const body = JSON.stringify({ run_id: runId });
    const length = String(body.length);
    response.writeHead(202, ["Content-Type", "application/json", "Content-Length", length, "X-Request-Id", runId]);
    response.end(body);
  }

  refuse(fault: Fault): void {
    const { client, monotonicMs } = this.#options;
    if (this.#answers()) client.refuse(fault, this.runId, monotonicMs());
  }

  #answers(): boolean {
    const isFirst = !this.#isAnswered;
    this.#isAnswered = true;
    return isFirst && !this.#options.client.isGone;
  }
}

type IncomingBodyOptions = {
  readonly request: IncomingMessage;
  readonly bytesMax: number;
  /** As the client tells; 0: it does not. */
  readonly expectedBytes: number;
  readonly deadlines: Deadlines;
  readonly resolve: (body: Buffer | Fault) => void;
};

/** One body on its way. */
class IncomingBody extends Timed {
  readonly #options: IncomingBodyOptions;
  readonly #startedAtMs: number;
  readonly #body = new GrowingBytes();
  readonly #onData = (piece: Buffer): void => this.#add(piece);
  readonly #onEnd = (): void => this.#over(this.#body.bytes());
  readonly #onClose = (): void => this.#over(brokenOff());

  constructor(options: IncomingBodyOptions, nowMs: number) {
    super();
    this.#options = options;
    this.#startedAtMs = nowMs;
  }

  begin(): void {
    const { request, deadlines } = this.#options;
    deadlines.set(this, this.#latestAtMs());
    request.on("data", this.#onData);
    request.on("end", this.#onEnd);
    request.on("close", this.#onClose);
    // The request's close says all.
    request.on("error", () => undefined);
  }

  override onDeadline(nowMs: number): void {
    const { deadlines } = this.#options;
    if (nowMs < this.#latestAtMs()) deadlines.set(this, this.#latestAtMs());
    else this.#over(tooSlow(this.#body.length));
  }

  #latestAtMs(): number {
    return this.#startedAtMs + slowestMs + this.#body.length / slowestBytesPerMs;
  }

  #add(piece: Buffer): void {
    const { bytesMax, expectedBytes } = this.#options;
    if (this.#body.length + piece.length > bytesMax) this.#over(asyncTooLarge(bytesMax));
    else this.#body.add(piece, expectedBytes);
  }

  #over(body: Buffer | Fault): void {
    const { request, deadlines, resolve } = this.#options;
    deadlines.clear(this);
    request.off("data", this.#onData);
    request.off("end", this.#onEnd);
    request.off("close", this.#onClose);
    if (body instanceof Fault) request.pause();
    resolve(body);
  }
}

function brokenOff(): Fault {
  return new Fault("malformed", "The body broke off: the connection was closed before all of it had come.");
}

function tooSlow(bytes: number): Fault {
  const message = `The body came too slowly: ${bytes} bytes within ${slowestMs / 1000} s and a second for each ${slowestBytesPerMs} kB; send it again over a faster connection.`;
  return new Fault("malformed", message);
}
