// One request for the log of a container. Its answer is read as far as it has come, and the engine
// waits while it is not.
import { promisify } from "node:util";
import { PassThrough, pipeline, type Readable } from "node:stream";
import { unlessStatus, type Engine } from "./engine.ts";
import { LogFrames, type LogMessage } from "./log-frames.ts";

/** Times are in the engine's form: seconds since the epoch, with decimals. */
export type LogQuery = {
  /** It goes on with what the container prints, until its end. */
  readonly follow: boolean;
  readonly since?: string;
  /** It ends before the first message after this time. */
  readonly until?: string;
  /** Only that many of the newest messages, and those that follow. */
  readonly tail?: number;
};

export type LogRequestOptions = {
  readonly engine: Engine;
  readonly containerId: string;
  /** More has come, or it has ended. */
  readonly onChange: () => void;
  /** Closes it. */
  readonly signal: AbortSignal;
};

/** What one batch of lines is taken from. */
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
    // 404 and 409: it was removed.
    unlessStatus([404, 409], answerTo({ ...options, signal: this.#closed.signal }, query)).then(
      (answer) => {
        if (answer === undefined) this.#buffer.end();
        else if (this.#closed.signal.aborted) answer.on("error", () => undefined).destroy();
        else pipeline(answer, this.#buffer, (error) => error && fail(error));
      },
      fail,
    );
  }

  /** There is nothing more to take. */
  get isEnded(): boolean {
    return this.#buffer.readableEnded || this.#buffer.destroyed;
  }

  /** Something has come that was not taken. */
  get hasMore(): boolean {
    return this.#buffer.readableLength > 0;
  }

  /** What has come since the last call. Throws when the answer broke off. */
  take(): readonly LogMessage[] {
    // The engine sends messages one by one; without a length, one of its chunks would be read.
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

/** Told that something has changed, any number of times, until somebody looks. */
export class ChangeSignal {
  #arrived = Promise.withResolvers<void>();

  tell(): void {
    this.#arrived.resolve();
  }

  /** Resolves with the first change since it last did. */
  async next(): Promise<void> {
    await this.#arrived.promise;
    this.#arrived = Promise.withResolvers();
  }
}

/**
 * Not dockerode's own call, which keeps an answer in memory until it is whole unless it follows. An
 * answer that does not follow is bounded in time, as those of other calls are.
 */
function answerTo(
  source: { readonly engine: Engine; readonly containerId: string; readonly signal: AbortSignal },
  query: LogQuery,
): Promise<Readable> {
  const { calls, streams } = source.engine;
  const modem = (query.follow ? streams : calls).modem as {
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
