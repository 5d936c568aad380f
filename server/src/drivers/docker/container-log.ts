// Delivers the output of one container to the sink: follows the engine's log, waits until lines are
// stored before it reads more, and writes its position to a file. When storing falls behind, the
// newest output comes first, and the skipped output afterwards. After a crash of the platform only
// the most recent lines are repeated.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ErrorLine } from "#drivers/exit-reason.ts";
import { inOrderMs, storeLines, type OutputOptions } from "#drivers/stored-lines.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { ContainerFile } from "./container-file.ts";
import type { Engine } from "./engine.ts";
import { LogCursor, logBegin, type LogLine, type Stream } from "./log-cursor.ts";
import { LogFrames, type LogMessage } from "./log-frames.ts";
import { ChangeSignal, LogRequest } from "./log-request.ts";
import { newestTail, newestTimes, reachOfNewest } from "./newest-output.ts";
import { SkippedOutput } from "./skipped-output.ts";
import { UnfinishedOutput } from "./unfinished-output.ts";

export type ContainerLogOptions = OutputOptions & {
  readonly containerId: string;
  readonly engine: Engine;
  /** Stores how far the log was delivered. */
  readonly file: ContainerFile;
};

/** How reading is tried again after a failure. */
const readRetries: RetryPolicy = {
  firstMs: 100,
  factor: 2,
  msMax: 10_000,
  jitter: 0.2,
  triesMax: untilStop,
};
/** How long to wait at the end of the log before reading on, while the container may still run. */
const pauseMs = 1000;
/** How much is read in order before a skip to the newest output is tried. */
const inOrderBytes = 256 * 1024;
/** A shorter line counts as this many bytes, since it costs more than its length. */
const lineBytesMin = 128;
/** After a failed skip, this many times `inOrderBytes` more is read before the next try. */
const noSkipFactor = 8;
/** How long to wait for the newest output before its first message is read. */
const firstWaitMs = 200;
/** How often the position is written while lines are flowing. */
const writeEveryMs = 100;

/** The log of one container. */
export class ContainerLog {
  readonly #options: ContainerLogOptions;
  /** Aborted by `close`. */
  readonly #stop = new AbortController();
  /** Aborted when the container has exited. */
  readonly #gone = new AbortController();
  readonly #unfinished: UnfinishedOutput;
  readonly #skipped: SkippedOutput;
  readonly #changes = new ChangeSignal();
  /** Where the newest output is read. */
  #cursor: LogCursor;
  /** True when the cursor is near the end of the log: the engine need not search all of the log. */
  #isAtEnd = false;
  /** The request whose answer is read, or was read last; null before the first. */
  #request: LogRequest | null = null;
  /** For each stream, the time of its last message that was read. */
  readonly #seen: Record<Stream, string> = { stdout: "", stderr: "" };
  /** When the position was last written, monotonic. */
  #writtenAtMs = Number.NEGATIVE_INFINITY;
  /** Settles when all lines that were passed on so far have been stored. */
  #storing: Promise<unknown> = Promise.resolve();
  /** How many batches of lines wait to be stored. */
  #waiting = 0;
  /** Settles when the log was read to its end; null: reading has not begun. */
  #flow: Promise<unknown> | null = null;

  constructor(options: ContainerLogOptions) {
    this.#options = options;
    this.#cursor = new LogCursor(options.file.reach, options);
    this.#unfinished = new UnfinishedOutput({
      ...options,
      isBehind: () => this.#isBehind,
      onLines: (lines) => void this.#store(lines),
    });
    const skippedOptions = {
      ...options,
      isLogged: (stream: Stream, to: string) => this.#isLogged(stream, to),
      store: (lines: readonly LogLine[]) => this.#store(this.#replicaLines(lines)),
      onMove: () => this.#moved(),
      onChange: () => this.#changes.tell(),
      signal: this.#stop.signal,
    };
    this.#skipped = new SkippedOutput(skippedOptions, options.file.parts);
  }

  /** Begins to see unfinished lines, which the container has begun and not ended. */
  async attach(): Promise<void> {
    await this.#unfinished.attach();
  }

  /** Begins to deliver what the container prints. */
  follow(): void {
    const { clock, onFault } = this.#options;
    const { signal } = this.#stop;
    this.#flow ??= retry({ ...readRetries, clock, signal, onFailure: onFault }, () =>
      this.#readAll(),
    );
  }

  /** Called when the container has exited: its output is complete, so nothing waits for more. */
  containerGone(): void {
    if (this.#gone.signal.aborted) return;
    this.#gone.abort();
    this.#request?.close();
    this.#unfinished.detach();
  }

  /**
   * Called when the container has exited: delivers the rest, including an unfinished last line.
   * Returns false when closed before.
   */
  async end(): Promise<boolean> {
    this.containerGone();
    this.follow();
    await this.#flow;
    if (this.#stop.signal.aborted) return false;
    return await this.#store(this.#newLines(this.#cursor.end()));
  }

  /** Returns the last 20 lines of standard error, which show why the container has ended. */
  async lastErrorLines(): Promise<readonly ErrorLine[]> {
    const { engine, containerId } = this.#options;
    const bytes = await engine.calls
      .getContainer(containerId)
      .logs({ stderr: true, tail: 20, timestamps: true });
    const cursor = new LogCursor(logBegin, this.#options);
    const { lines, next } = cursor.take(new LogFrames({ hasTimes: true }).take(bytes));
    cursor.moveTo(next);
    // 0: the time cannot be read.
    return [...lines, ...cursor.end()].map(({ time, runId, text }) => {
      return { at: Date.parse(time) || 0, runId, text };
    });
  }

  /** Stops delivering; resolves once no line is being stored any more. */
  async close(): Promise<void> {
    this.#stop.abort(new Error("the log was closed"));
    this.containerGone();
    await this.#flow;
    await this.#storing;
    this.#unfinished.close();
    this.#writeReach();
  }

  async #readAll(): Promise<void> {
    const { clock } = this.#options;
    try {
      for (let isDone = false; !isDone && !this.#stop.signal.aborted;) {
        const isGone = this.#gone.signal.aborted;
        const isRead = await this.#read(isGone);
        // If the container exited during this read, the read may have missed its last output.
        isDone = isGone && isRead;
        // The engine ends the stream when the container exits, but also when the engine itself
        // stops: so the log is read again after a pause.
        if (isRead && !isGone) await clock.sleep(pauseMs, this.#gone.signal).catch(() => undefined);
      }
    } finally {
      this.#request?.close();
      this.#skipped.stop();
    }
  }

  /**
   * Reads to the end of the log. Returns false when reading has to begin again at another position,
   * or was closed.
   */
  async #read(isGone: boolean): Promise<boolean> {
    if (!isGone) void this.#unfinished.attach().catch(() => undefined);
    const cursor = this.#cursor;
    cursor.readAgain();
    const { signal } = this.#stop;
    const requestOptions = { ...this.#options, signal, onChange: () => this.#changes.tell() };
    const isAtEnd = this.#isAtEnd;
    this.#isAtEnd = false;
    // `tail` asks for the newest messages only, `since` for all from the cursor on.
    const begin = isAtEnd ? { tail: newestTail } : cursor.since;
    const request = new LogRequest(requestOptions, { follow: true, ...begin });
    this.#request = request;
    // The engine does not always end a request that was made before the container's end.
    if (!isGone && this.#gone.signal.aborted) request.close();
    // The pause lets output arrive, so that the first message shows where the newest output begins.
    if (isAtEnd) await this.#options.clock.sleep(firstWaitMs, signal).catch(() => undefined);
    let mayHaveGap = isAtEnd;
    // While no message comes, skipped output is read. But a request that has ended although the
    // container may still run is made again first.
    for (let bytesInOrder = 0; !signal.aborted;) {
      const messages = request.take();
      if (messages.length > 0) {
        // There is a gap before the first message when the app has printed more than the request
        // returns, or when the engine has begun a new file. If the gap cannot be skipped, the log
        // is read again from the cursor.
        if (mayHaveGap && isLater(messages[0], this.#cursor) && !(await this.#skipTo(messages))) {
          request.close();
          return false;
        }
        mayHaveGap = false;
        if (isLater(messages.at(-1), this.#cursor)) bytesInOrder += weightOf(messages);
        if (!(await this.#deliver(messages))) return false;
        if (bytesInOrder < inOrderBytes || !this.#isOld(messages)) continue;
        if (await this.#skip(request)) return false;
        // There was little to skip, or the engine did not answer in time.
        bytesInOrder = -noSkipFactor * inOrderBytes;
      } else if (request.isEnded && !isGone) return true;
      else if (await this.#skipped.read()) continue;
      else if (request.isEnded && this.#skipped.parts.length === 0) return true;
      else await this.#changes.next();
    }
    return false;
  }

  /**
   * Stores the lines in these messages and moves the cursor. Returns false when closed meanwhile.
   */
  async #deliver(messages: readonly LogMessage[]): Promise<boolean> {
    for (const { stream, time } of messages) this.#seen[stream] = time;
    const { lines, next } = this.#cursor.take(messages);
    if (!(await this.#store(this.#newLines(lines)))) return false;
    this.#cursor.moveTo(next);
    this.#moved();
    return true;
  }

  /** Whether these messages are so old that newer output should come first. */
  #isOld(messages: readonly LogMessage[]): boolean {
    const { clock } = this.#options;
    return clock.now() - Date.parse(messages.at(-1)?.time ?? "") > inOrderMs;
  }

  /** Skips to the newest output. Returns true when the output before it is now a skipped part. */
  async #skip(request: LogRequest): Promise<boolean> {
    const newest = await newestTimes({ ...this.#options, signal: this.#stop.signal });
    if (!(await this.#skipTo(newest))) return false;
    request.close();
    this.#isAtEnd = true;
    return true;
  }

  /** Skips to these messages. Returns true when the unread output before them is a skipped part. */
  async #skipTo(newest: readonly Pick<LogMessage, "stream" | "time">[]): Promise<boolean> {
    const { position, reached } = this.#cursor.reach;
    const reach = reachOfNewest(newest, { position, reached });
    if (reach === null || this.#stop.signal.aborted) return false;
    this.#cursor = new LogCursor(reach, this.#options);
    await this.#skipped.add({ position, reached, to: reach.position });
    this.#writeReach();
    return true;
  }

  /** Whether lines wait to be stored or to be read. */
  get #isBehind(): boolean {
    return this.#waiting > 0 || this.#request?.hasMore === true || this.#skipped.isBehind;
  }

  /** Whether everything that the stream printed up to this time is in the engine's log. */
  #isLogged(stream: Stream, time: string): boolean {
    return this.#gone.signal.aborted || this.#seen[stream] > time;
  }

  /** The lines of the log, without what was already delivered while they were unfinished. */
  #newLines(lines: readonly LogLine[]): ReplicaLine[] {
    const unfinished = this.#unfinished;
    return this.#replicaLines(lines).flatMap((line) => unfinished.finished(line.stream, [line]));
  }

  #replicaLines(lines: readonly LogLine[]): ReplicaLine[] {
    const { replicaId, clock } = this.#options;
    const nowMs = clock.now();
    // A time that cannot be read, or that is in the future, becomes the present time.
    return lines.map(({ stream, time, runId, text }) => {
      return { replicaId, at: Math.min(nowMs, Date.parse(time) || nowMs), stream, runId, text };
    });
  }

  /**
   * Stores the lines after the batches that wait already. Returns false when closed before the
   * lines were stored: they will be read again.
   */
  async #store(lines: readonly ReplicaLine[]): Promise<boolean> {
    const { signal } = this.#stop;
    if (lines.length === 0) return !signal.aborted;
    this.#waiting++;
    const stored = this.#storing.then(() => storeLines(lines, { ...this.#options, signal }));
    const counted = stored.finally(() => {
      this.#waiting--;
    });
    this.#storing = counted.catch(() => undefined);
    return await stored;
  }

  /** Called when output was delivered: writes the position from time to time. */
  #moved(): void {
    if (this.#options.clock.monotonicMs() - this.#writtenAtMs >= writeEveryMs) this.#writeReach();
    this.#unfinished.look();
  }

  #writeReach(): void {
    this.#writtenAtMs = this.#options.clock.monotonicMs();
    const { position, reached } = this.#cursor.reach;
    this.#options.file.keep({ position, reached, parts: this.#skipped.parts });
  }
}

/** Returns the bytes of the messages, where a short line counts as `lineBytesMin`. */
function weightOf(messages: readonly LogMessage[]): number {
  return messages.reduce((sum, { bytes }) => sum + Math.max(bytes.length, lineBytesMin), 0);
}

/** Whether the message comes after all output that the cursor has passed. */
function isLater(message: LogMessage | undefined, { reach }: LogCursor): boolean {
  return message !== undefined && message.time > reach.position;
}
