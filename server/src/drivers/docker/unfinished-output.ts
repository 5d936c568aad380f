// Delivers lines that a running container has begun and not ended. The engine's log has only whole
// lines, so the beginning of a line is read from the container itself. Output that is lost in doing
// so is not read again, since the log has the whole line once it ends.
import type { Readable } from "node:stream";
import type { ReplicaLine } from "#drivers/driver.ts";
import { cutLines, unfinishedLine } from "#drivers/log-lines.ts";
import type { OutputOptions } from "#drivers/stored-lines.ts";
import { UnfinishedLine } from "#drivers/unfinished-line.ts";
import type { Engine } from "./engine.ts";
import { LogFrames } from "./log-frames.ts";

type Stream = ReplicaLine["stream"];

export type UnfinishedOutputOptions = Pick<OutputOptions, "replicaId" | "hasFrames" | "clock"> & {
  readonly containerId: string;
  readonly engine: Engine;
  /** Whether lines of the log, which come first, have not been delivered yet. */
  readonly isBehind: () => boolean;
  readonly onLines: (lines: readonly ReplicaLine[]) => void;
};

const streams: readonly Stream[] = ["stdout", "stderr"];
const newline = 0x0a;
/** How soon after output the unfinished lines are checked. */
const checkAfterMs = 50;
/**
 * The maximum that is read between two checks, which allows some 10 MB/s: an app that prints faster
 * has to wait for the platform.
 */
const readBytesMax = 500_000;
/** The engine attaches at once, unless it hangs. */
const attachWaitMs = 10_000;
/** How much is collected before it is joined, since an app may print byte by byte. */
const looseBytesMax = 4096;

/** The unfinished lines of one container. */
export class UnfinishedOutput {
  readonly #options: UnfinishedOutputOptions;
  readonly #tails: Readonly<Record<Stream, Tail>>;
  readonly #unfinished: Readonly<Record<Stream, UnfinishedLine>>;
  /** The container's output as it appears; null: it is not being read. */
  #attached: Readable | null = null;
  /** Settles when the engine has answered; null: nobody waits for that. */
  #attaching: Promise<void> | null = null;
  /** Cancels the planned check; undefined: none is planned. */
  #cancelLook: (() => void) | undefined;
  #isDetached = false;
  /** The bytes read since the last check. */
  #readBytes = 0;

  constructor(options: UnfinishedOutputOptions) {
    this.#options = options;
    const { clock, hasFrames } = options;
    const line = (): UnfinishedLine => new UnfinishedLine({ clock, onDue: () => this.look() });
    this.#tails = { stdout: new Tail(hasFrames), stderr: new Tail(hasFrames) };
    this.#unfinished = { stdout: line(), stderr: line() };
  }

  /** Begins to read the container's output; called before the container starts, it misses none. */
  async attach(): Promise<void> {
    if (this.#isDetached || this.#attached !== null) return;
    this.#attaching ??= this.#attach().finally(() => {
      this.#attaching = null;
    });
    await this.#attaching;
  }

  /**
   * Returns these finished lines of the log, without the first if it was delivered with the same
   * text while it was unfinished.
   */
  finished<Line extends ReplicaLine>(stream: Stream, lines: readonly Line[]): readonly Line[] {
    return this.#unfinished[stream].finished(lines);
  }

  /** Delivers the unfinished lines that are due. */
  look(): void {
    if (this.#isDetached || this.#options.isBehind()) return;
    const { replicaId, clock, onLines } = this.#options;
    const lines: ReplicaLine[] = [];
    for (const stream of streams) {
      const due = this.#unfinished[stream].due(this.#tails[stream].line());
      if (due !== null) lines.push({ replicaId, at: clock.now(), stream, ...due });
    }
    if (lines.length > 0) onLines(lines);
  }

  /** Called when the container has ended: the log has all its output. */
  detach(): void {
    this.#isDetached = true;
    this.#attached?.destroy();
    this.#cancelLook?.();
  }

  close(): void {
    this.detach();
    for (const line of Object.values(this.#unfinished)) line.stop();
  }

  async #attach(): Promise<void> {
    const { engine, containerId, clock } = this.#options;
    const late = new AbortController();
    const cancel = clock.after(attachWaitMs, () =>
      late.abort(new Error("the engine did not attach in time")),
    );
    const options = { stream: true, stdout: true, stderr: true, abortSignal: late.signal } as const;
    const attached = (await engine.streams
      .getContainer(containerId)
      .attach(options)
      .finally(cancel)) as unknown as Readable;
    const frames = new LogFrames({ hasTimes: false });
    for (const tail of Object.values(this.#tails)) tail.clear();
    // The output is read at once, within a bound: the engine lets the app wait while it is not
    // read.
    attached.on("data", (chunk: Buffer) => this.#take(frames, chunk));
    // The next read of the log attaches again.
    attached
      .on("error", () => undefined)
      .once("close", () => {
        this.#attached = null;
      });
    this.#attached = attached;
    if (this.#isDetached) attached.destroy();
  }

  #take(frames: LogFrames, chunk: Buffer): void {
    for (const { stream, bytes } of frames.take(chunk)) this.#tails[stream].add(bytes);
    this.#readBytes += chunk.length;
    if (this.#readBytes > readBytesMax) this.#attached?.pause();
    this.#cancelLook ??= this.#options.clock.after(checkAfterMs, () => {
      this.#cancelLook = undefined;
      this.#readBytes = 0;
      this.#attached?.resume();
      this.look();
    });
  }
}

/** The text after the last newline of a stream. */
class Tail {
  readonly #hasFrames: boolean;
  #bytes: Buffer = Buffer.alloc(0);
  /** The pieces that follow `#bytes` and were not joined to it yet. */
  #loose: Buffer[] = [];
  #looseBytes = 0;
  /** True when the line is so long that its beginning was cut off, as a line of its own. */
  #isCutting = false;

  constructor(hasFrames: boolean) {
    this.#hasFrames = hasFrames;
  }

  add(bytes: Buffer): void {
    const start = bytes.lastIndexOf(newline) + 1;
    if (start > 0) this.clear();
    this.#loose.push(bytes.subarray(start));
    this.#looseBytes += bytes.length - start;
    if (this.#looseBytes > looseBytesMax) this.#join();
  }

  clear(): void {
    this.#bytes = Buffer.alloc(0);
    this.#loose = [];
    this.#looseBytes = 0;
    this.#isCutting = false;
  }

  /**
   * Returns the unfinished line; null when there is none, or when it is so long that its beginning
   * was delivered as a line.
   */
  line() {
    this.#join();
    return this.#isCutting ? null : unfinishedLine(this.#bytes, this.#hasFrames);
  }

  #join(): void {
    if (this.#looseBytes === 0) return;
    const all = Buffer.concat([this.#bytes, ...this.#loose]);
    const { bytes, isCutting } = cutLines(all, {
      isCutting: this.#isCutting,
      isEnd: false,
      hasFrames: this.#hasFrames,
    });
    this.clear();
    // A copy: a part of the larger buffer would keep all of it in memory.
    this.#bytes = Buffer.from(all.subarray(bytes));
    this.#isCutting = isCutting;
  }
}
