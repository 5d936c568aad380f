// Makes one request for the log of a container, whose answer is read while it arrives. The engine
// waits while nobody reads.
import { promisify } from "node:util";
import { PassThrough, pipeline, type Readable } from "node:stream";
import { unlessStatus, type Engine } from "./engine.ts";
import { LogFrames, type LogMessage } from "./log-frames.ts";

/** Times are in the engine's form: seconds since the epoch, with decimals. */
export type LogQuery = {
  /** Whether the answer goes on with new output until the container's end. */
  readonly follow: boolean;
  readonly since?: string;
  /** The answer ends before the first message after this time. */
  readonly until?: string;
  /** How many of the newest messages the answer begins with. */
  readonly tail?: number;
};

export type LogRequestOptions = {
  readonly engine: Engine;
  readonly containerId: string;
  /** Called when more of the answer has arrived, or when it has ended. */
  readonly onChange: () => void;
  /** Closes the request when it is aborted. */
  readonly signal: AbortSignal;
};

/** The maximum number of bytes from which one batch of lines is made. */
const bufferedBytesMax = 256 * 1024;

/** A request that was sent. */
export class LogRequest {
  readonly #frames = new LogFrames({ hasTimes: true });
  readonly #buffer = new PassThrough({ readableHighWaterMark: bufferedBytesMax });
  readonly #closed = new AbortController();
  #error: Error | null = null;

  constructor(options: LogRequestOptions, query: LogQuery) {
    const { signal, onChange } = options;
    for (const event of ["readable", "end", "close"]) this.#buffer.on(event, onChange);
    const close = (): void => this.close();
    signal.addEventListener("abort", close);
    this.#buffer.once("close", () => signal.removeEventListener("abort", close));
    if (signal.aborted) close();
    const fail = (error: unknown): void => {
      this.#error ??= error instanceof Error ? error : new Error(String(error));
      this.#buffer.destroy();
    };
    // 404 and 409: the container was removed, or is being removed.
    unlessStatus([404, 409], answerTo({ ...options, signal: this.#closed.signal }, query)).then(
      (answer) => {
        if (answer === undefined) this.#buffer.end();
        else if (this.#closed.signal.aborted) answer.on("error", () => undefined).destroy();
        else pipeline(answer, this.#buffer, (error) => error && fail(error));
      },
      fail,
    );
  }

  /** Whether the answer has ended and was taken in full. */
  get isEnded(): boolean {
    return this.#buffer.readableEnded || this.#buffer.destroyed;
  }

  /** Whether messages have arrived that were not taken. */
  get hasMore(): boolean {
    return this.#buffer.readableLength > 0;
  }

  /**
   * Returns the messages that have arrived since the last call. Throws when the answer broke off.
   */
  take(): readonly LogMessage[] {
    // With a length, many messages are read at once: the engine sends each in a chunk of its own.
    // Without a length, an empty buffer notices that the answer has ended.
    const length = Math.min(this.#buffer.readableLength, bufferedBytesMax);
    const chunk = (length > 0 ? this.#buffer.read(length) : this.#buffer.read()) as Buffer | null;
    if (chunk !== null) return this.#frames.take(chunk);
    if (this.#error !== null && !this.#closed.signal.aborted) throw this.#error;
    return [];
  }

  close(): void {
    this.#closed.abort(new Error("the log was closed"));
    this.#buffer.destroy();
  }
}

/** Remembers that something has changed, however often, until somebody waits for a change. */
export class ChangeSignal {
  #arrived = Promise.withResolvers<void>();

  tell(): void {
    this.#arrived.resolve();
  }

  /** Resolves when something has changed since the last time that it resolved. */
  async next(): Promise<void> {
    await this.#arrived.promise;
    this.#arrived = Promise.withResolvers();
  }
}

/**
 * Sends the request. Does not use dockerode's own call, which would keep an answer without `follow`
 * in memory until it is complete. Such an answer has the time limit of other calls.
 */
function answerTo(
  source: { readonly engine: Engine; readonly containerId: string; readonly signal: AbortSignal },
  query: LogQuery,
): Promise<Readable> {
  const { calls, streams } = source.engine;
  const client = query.follow ? streams : calls;
  const modem = client.modem as {
    dial(options: object, done: (error: unknown, answer: Readable) => void): void;
  };
  return promisify(modem.dial.bind(modem))({
    path: `/containers/${source.containerId}/logs?`,
    method: "GET",
    isStream: true,
    abortSignal: source.signal,
    statusCodes: { 200: true, 404: "no such container", 500: "server error" },
    options: { stdout: true, stderr: true, timestamps: true, ...query },
  });
}
