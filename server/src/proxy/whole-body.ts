// Reads the body of a call that runs later: completely, within a size limit and a time limit.
import type { Readable } from "node:stream";
import { Fault } from "#lib/fault.ts";
import { asyncTooLarge } from "./call-faults.ts";
import { Timed, type Deadlines } from "./deadlines.ts";
import { GrowingBytes } from "./growing-bytes.ts";

/** The time limit for a body: this long, plus the time that its bytes need at the lowest rate. */
const slowestMs = 30_000;
/** The lowest rate: 16 bytes per millisecond are 16 kB, or 128 kbit, per second. */
const slowestBytesPerMs = 16;

export type WholeBodyOptions = {
  readonly request: Readable;
  readonly bytesMax: number;
  /** The length that the client announces; 0: unknown. */
  readonly expectedBytes: number;
  readonly deadlines: Deadlines;
};

/**
 * Reads the body. A fault when it exceeds `bytesMax`, breaks off or arrives too slowly. Never
 * rejects.
 */
export function readWhole(options: WholeBodyOptions, nowMs: number): Promise<Buffer | Fault> {
  if (options.request.destroyed) return Promise.resolve(brokenOff());
  return new Promise((resolve) => new WholeBody(options, nowMs, resolve).begin());
}

/** One body being received. */
class WholeBody extends Timed {
  readonly #options: WholeBodyOptions;
  readonly #startedAtMs: number;
  readonly #resolve: (body: Buffer | Fault) => void;
  readonly #body = new GrowingBytes();
  readonly #onData = (piece: Buffer): void => this.#add(piece);
  readonly #onEnd = (): void => this.#finish(this.#body.bytes());
  readonly #onClose = (): void => this.#finish(brokenOff());

  constructor(options: WholeBodyOptions, nowMs: number, resolve: (body: Buffer | Fault) => void) {
    super();
    this.#options = options;
    this.#startedAtMs = nowMs;
    this.#resolve = resolve;
  }

  begin(): void {
    const { request, deadlines } = this.#options;
    deadlines.set(this, this.#latestAtMs());
    request.on("data", this.#onData);
    request.on("end", this.#onEnd);
    request.on("close", this.#onClose);
    // The request's close event covers every error.
    request.on("error", () => undefined);
  }

  override onDeadline(nowMs: number): void {
    const { deadlines } = this.#options;
    if (nowMs < this.#latestAtMs()) deadlines.set(this, this.#latestAtMs());
    else this.#finish(tooSlow(this.#body.length));
  }

  /** The time after which the body counts as too slow, given how much of it has arrived. */
  #latestAtMs(): number {
    return this.#startedAtMs + slowestMs + this.#body.length / slowestBytesPerMs;
  }

  #add(piece: Buffer): void {
    const { bytesMax, expectedBytes } = this.#options;
    if (this.#body.length + piece.length > bytesMax) this.#finish(asyncTooLarge(bytesMax));
    else this.#body.add(piece, expectedBytes);
  }

  #finish(body: Buffer | Fault): void {
    const { request, deadlines } = this.#options;
    deadlines.clear(this);
    request.off("data", this.#onData);
    request.off("end", this.#onEnd);
    request.off("close", this.#onClose);
    if (body instanceof Fault) request.pause();
    this.#resolve(body);
  }
}

/** The fault of a body whose connection, or stream, ended before it. */
export function brokenOff(): Fault {
  return new Fault(
    "malformed",
    "The body is incomplete: the connection was closed before all of it had arrived.",
  );
}

function tooSlow(bytes: number): Fault {
  const message = `The body arrived too slowly: ${bytes} bytes within ${slowestMs / 1000} s plus one second for each ${slowestBytesPerMs} kB; send it again over a faster connection.`;
  return new Fault("malformed", message);
}
