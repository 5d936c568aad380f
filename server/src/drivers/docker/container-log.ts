// Delivers the output of one container to the sink: follows the engine's log, waits until lines are stored before it reads more,
// and writes to a file how far it came. A crash of the platform repeats only the most recent lines.
import type { Readable } from "node:stream";
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ErrorLine } from "#drivers/exit-reason.ts";
import { cutLines } from "#drivers/log-lines.ts";
import { storeLines, type OutputOptions } from "#drivers/stored-lines.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { ContainerFile, LogReached } from "./container-file.ts";
import { unlessStatus, type Engine } from "./engine.ts";
import { LogFrames, type LogMessage } from "./log-frames.ts";
import { UnfinishedOutput } from "./unfinished-output.ts";

export type ContainerLogOptions = OutputOptions & {
  readonly containerId: string;
  readonly engine: Engine;
  /** Keeps how far it was delivered. */
  readonly file: ContainerFile;
};

const following: RetryPolicy = { firstMs: 100, factor: 2, msMax: 10_000, jitter: 0.2, triesMax: untilStop };
/** Before the log of a container that may still run is read on. */
const pauseMs = 1000;
/** How far before the position the log is read on. */
const overlapSeconds = 5;
/** How often the position is written while lines are flowing. */
const keepEveryMs = 100;

/** What was read of an unfinished line. */
type Rest = { bytes: Buffer; isCutting: boolean };

const noRest: Rest = { bytes: Buffer.alloc(0), isCutting: false };

/** The log of one container. */
export class ContainerLog {
  readonly #options: ContainerLogOptions;
  readonly #stop = new AbortController();
  readonly #rests: Record<LogMessage["stream"], Rest> = { stdout: { ...noRest }, stderr: { ...noRest } };
  /** Messages up to this time were delivered; the engine's form, whose order is that of the texts. */
  #position: string;
  /** Further than the position where the other stream has an unfinished line. */
  #reached: LogReached;
  #keptAtMs = Number.NEGATIVE_INFINITY;
  readonly #gone = new AbortController();
  readonly #unfinished: UnfinishedOutput;
  /** The last lines that are handed to be stored, and how many batches wait with them. */
  #storing: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #flow: Promise<unknown> | null = null;
  #stream: Readable | null = null;

  constructor(options: ContainerLogOptions) {
    this.#options = options;
    this.#position = options.file.position;
    this.#reached = options.file.reached;
    this.#unfinished = new UnfinishedOutput({
      ...options,
      isBehind: () => this.#waiting > 0,
      onLines: (lines) => void this.#store(lines),
    });
  }

  /** From now on lines that the container does not end are seen too. */
  async attach(): Promise<void> {
    await this.#unfinished.attach();
  }

  /** Begins to deliver what the container prints. */
  follow(): void {
    const { clock, onFault } = this.#options;
    const { signal } = this.#stop;
    this.#flow ??= retry({ ...following, clock, signal, onFailure: onFault }, async () => {
      for (let wasGone = false; !wasGone && !signal.aborted;) {
        wasGone = this.#gone.signal.aborted;
        await this.#read(wasGone);
        // The engine ends the stream with the container, but also when it stops itself.
        if (!wasGone) await clock.sleep(pauseMs, this.#gone.signal).catch(() => undefined);
      }
    });
  }

  /** The container has exited: what it has printed is all, and is read without waiting for more. */
  containerGone(): void {
    if (this.#gone.signal.aborted) return;
    this.#gone.abort();
    this.#stream?.destroy();
    this.#unfinished.detach();
  }

  /** The container has exited: delivers the rest, with an unfinished last line. False: closed before. */
  async end(): Promise<boolean> {
    this.containerGone();
    this.follow();
    await this.#flow;
    if (this.#stop.signal.aborted) return false;
    const nothing = { time: this.#position, bytes: Buffer.alloc(0) };
    const last = (["stdout", "stderr"] as const).flatMap((stream) => this.#linesOf({ stream, ...nothing }, true));
    return await this.#store(last);
  }

  /** The last lines of standard error. */
  async lastErrorLines(): Promise<readonly ErrorLine[]> {
    const { engine, containerId, hasFrames } = this.#options;
    const bytes = await engine.calls.getContainer(containerId).logs({ stderr: true, tail: 20, timestamps: true });
    const rest = { ...noRest };
    let at = 0;
    const lines = new LogFrames({ hasTimes: true }).take(bytes).flatMap((message) => {
      at = Date.parse(message.time) || 0;
      const whole = cut(rest, message.bytes, { isEnd: false, hasFrames });
      return whole.map(({ runId, text }) => ({ at, runId, text }));
    });
    const unfinished = cut(rest, Buffer.alloc(0), { isEnd: true, hasFrames });
    return [...lines, ...unfinished.map(({ runId, text }) => ({ at, runId, text }))];
  }

  /** Resolves once the current lines are stored, after which it delivers no more. */
  async close(): Promise<void> {
    this.#stop.abort(new Error("the log was closed"));
    this.containerGone();
    this.#stream?.destroy();
    await this.#flow;
    await this.#storing;
    this.#unfinished.close();
    this.#options.file.keep({ position: this.#position, reached: this.#reached });
  }

  async #read(isGone: boolean): Promise<void> {
    const { engine, containerId } = this.#options;
    const reached = this.#reached;
    if (!isGone) void this.#unfinished.attach().catch(() => undefined);
    for (const rest of Object.values(this.#rests)) Object.assign(rest, noRest);
    const asked = { follow: true, stdout: true, stderr: true, timestamps: true, ...sinceOf(this.#position) } as const;
    // 404 and 409: it was removed.
    const stream = await unlessStatus([404, 409], engine.streams.getContainer(containerId).logs(asked));
    if (stream === undefined) return;
    this.#stream = stream as Readable;
    // The engine does not always end what it was asked for before the container's end.
    const until = isGone ? this.#stop.signal : this.#gone.signal;
    if (until.aborted) this.#stream.destroy();
    const frames = new LogFrames({ hasTimes: true });
    for await (const chunk of untilAborted(this.#stream, until)) {
      // Parts of a long line have the same time.
      const messages = frames.take(chunk).filter(({ stream, time }) => time > reached[stream]);
      if (!(await this.#deliver(messages))) return;
    }
  }

  /** False when closed meanwhile. */
  async #deliver(all: readonly LogMessage[]): Promise<boolean> {
    const lines: ReplicaLine[] = [];
    const reached = { ...this.#reached };
    let position = this.#position;
    for (const message of all) {
      lines.push(...this.#linesOf(message, false));
      // An unfinished line is read again from its beginning.
      if (this.#rests[message.stream].bytes.length === 0) reached[message.stream] = message.time;
      if (Object.values(this.#rests).every(({ bytes }) => bytes.length === 0)) position = message.time;
    }
    if (!(await this.#store(lines))) return false;
    this.#moveTo(position, reached);
    this.#unfinished.look();
    return true;
  }

  #linesOf(message: LogMessage, isEnd: boolean): ReplicaLine[] {
    const { replicaId, hasFrames, clock } = this.#options;
    const at = Math.min(clock.now(), Date.parse(message.time) || clock.now());
    const lines = cut(this.#rests[message.stream], message.bytes, { isEnd, hasFrames });
    const { stream } = message;
    const all = lines.map(({ runId, text }) => ({ replicaId, at, stream, runId, text }));
    return [...this.#unfinished.finished(stream, all)];
  }

  /** One batch after the other. False when closed before the lines were stored: they will be read again. */
  async #store(lines: readonly ReplicaLine[]): Promise<boolean> {
    const { signal } = this.#stop;
    if (lines.length === 0) return !signal.aborted;
    this.#waiting++;
    const stored = this.#storing.then(() => storeLines(lines, { ...this.#options, signal }));
    this.#storing = stored.finally(() => this.#waiting--).catch(() => undefined);
    return await stored;
  }

  #moveTo(position: string, reached: LogReached): void {
    this.#position = position;
    this.#reached = reached;
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#keptAtMs < keepEveryMs) return;
    this.#keptAtMs = nowMs;
    this.#options.file.keep({ position, reached });
  }
}

/** `rest` becomes what is left. */
function cut(rest: Rest, bytes: Buffer, given: { readonly isEnd: boolean; readonly hasFrames: boolean }) {
  const buffer = rest.bytes.length === 0 ? bytes : Buffer.concat([rest.bytes, bytes]);
  const { lines, bytes: end, isCutting } = cutLines(buffer, { isCutting: rest.isCutting, ...given });
  Object.assign(rest, { bytes: buffer.subarray(end), isCutting });
  return lines;
}

/** The engine's form of "from this time on". Each stream is in order, but a message of one may follow later ones of the other. */
function sinceOf(position: string): { readonly since?: string } {
  const seconds = Date.parse(position) / 1000 - overlapSeconds;
  return Number.isNaN(seconds) ? {} : { since: seconds.toFixed(3) };
}

async function* untilAborted(stream: Readable, signal: AbortSignal): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of stream) yield chunk as Buffer;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
