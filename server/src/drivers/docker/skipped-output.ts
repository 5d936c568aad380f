// The parts of a container's log that were skipped because newer output is read first. They are
// read later, when there is no newer output, one after the other and the newest first.
import type { Clock } from "#lib/clock.ts";
import {
  droppedLine,
  LogCursor,
  engineTime,
  strayMs,
  streams,
  type LogLine,
  type LogReach,
  type Stream,
} from "./log-cursor.ts";
import { LogRequest, type LogRequestOptions } from "./log-request.ts";

/** A skipped part: the messages after the position, up to and including the time `to`. */
export type SkippedMessages = LogReach & { readonly to: string };

export type SkippedOutputOptions = LogRequestOptions & {
  readonly hasFrames: boolean;
  readonly clock: Clock;
  /** True when the log has everything that the stream printed up to this time. */
  readonly isLogged: (stream: Stream, to: string) => boolean;
  /** Stores lines; false when the log was closed before. */
  readonly store: (lines: readonly LogLine[]) => Promise<boolean>;
  /** Called when a part was read further or removed, so that the position is stored. */
  readonly onMove: () => void;
};

type Part = {
  readonly cursor: LogCursor;
  readonly to: string;
  /** The part waits for the end of the last line of this stream; null: it does not wait. */
  waitsFor: Stream | null;
};

type Reading = {
  readonly part: Part;
  readonly request: LogRequest;
  /** The streams whose lines all end within the answer. */
  readonly completeStreams: readonly Stream[];
};

/**
 * Few, since each part takes space in the stored position. When there are more, the oldest part is
 * dropped.
 */
const partsMax = 100;

/** The parts of one container. */
export class SkippedOutput {
  readonly #options: SkippedOutputOptions;
  #parts: Part[];
  /** The part that is being read; null: none is. */
  #reading: Reading | null = null;
  /** Cancels the call of `onChange` that is planned for when a part can be read. */
  #cancelWait: (() => void) | undefined;

  constructor(options: SkippedOutputOptions, parts: readonly SkippedMessages[]) {
    this.#options = options;
    this.#parts = parts.map((part) => this.#partOf(part));
  }

  get parts(): readonly SkippedMessages[] {
    return this.#parts.map(({ cursor, to }) => {
      const { position, reached } = cursor.reach;
      return { position, reached, to };
    });
  }

  /** True when there are parts to read soon. */
  get isBehind(): boolean {
    return this.#parts.some(({ waitsFor }) => waitsFor === null);
  }

  /** Adds a part. False when the log was closed meanwhile. */
  async add(part: SkippedMessages): Promise<boolean> {
    this.#parts.push(this.#partOf(part));
    const oldest = this.#parts[0];
    if (oldest === undefined || this.#parts.length <= partsMax) return true;
    if (this.#reading?.part === oldest) this.stop();
    return await this.#finish(oldest, [droppedLine(oldest.to)]);
  }

  /** Reads and stores some lines of the next part. False: there is nothing to read now. */
  async read(): Promise<boolean> {
    this.#reading ??= this.#begin();
    if (this.#reading === null) return false;
    const { part, request } = this.#reading;
    const messages = request.take();
    if (messages.length === 0) return request.isEnded && (await this.#end(this.#reading));
    const { lines, next } = part.cursor.take(messages, part.to);
    if (!(await this.#options.store(lines))) return false;
    part.cursor.moveTo(next);
    this.#options.onMove();
    return true;
  }

  /** Stops reading; the lines that are not stored are read again later. */
  stop(): void {
    this.#cancelWait?.();
    this.#cancelWait = undefined;
    this.#reading?.request.close();
    this.#reading = null;
  }

  #partOf({ position, reached, to }: SkippedMessages): Part {
    const cursor = new LogCursor({ position, reached }, this.#options);
    return { cursor, to, waitsFor: null };
  }

  /** Begins to read the newest part that can be read; null: there is none now. */
  #begin(): Reading | null {
    const { isLogged, clock, onChange } = this.#options;
    this.#cancelWait?.();
    const isReadable = (part: Part): boolean =>
      part.waitsFor === null || isLogged(part.waitsFor, part.to);
    const readable = this.#parts.filter(isReadable);
    const part = readable.findLast((each) => this.#waitMs(each) <= 0);
    if (part === undefined) {
      // Looks again when the wait for the first of these parts is over, if there are any.
      const waits = readable.map((each) => this.#waitMs(each));
      this.#cancelWait =
        readable.length === 0 ? undefined : clock.after(Math.min(...waits), onChange);
      return null;
    }
    part.cursor.readAgain();
    // A part that waits for the end of a line is read to the end of the log: that end may come much
    // later than the part's time.
    const isToEnd = part.waitsFor !== null;
    const until = isToEnd ? {} : { until: engineTime(Date.parse(part.to) + strayMs) };
    const request = new LogRequest(this.#options, {
      follow: false,
      ...until,
      ...part.cursor.since,
    });
    const completeStreams = streams.filter((stream) => isToEnd && isLogged(stream, part.to));
    return { part, request, completeStreams };
  }

  /**
   * How long until the log has all messages of the part's time, which may be logged late. Zero or
   * less: the log has them now.
   */
  #waitMs({ to }: Part): number {
    const { isLogged, clock } = this.#options;
    if (streams.every((stream) => isLogged(stream, to))) return 0;
    return Date.parse(to) + strayMs - clock.now();
  }

  /** The answer has ended: finishes the part, unless it has a line whose end is still missing. */
  async #end({ part, completeStreams }: Reading): Promise<boolean> {
    const { unfinished } = part.cursor;
    const incomplete = unfinished.find((stream) => !completeStreams.includes(stream));
    this.stop();
    part.waitsFor = incomplete ?? null;
    // True, although nothing was stored: another part may be readable now.
    if (incomplete !== undefined) return true;
    const last = [...part.cursor.missing(part.to), ...part.cursor.end()];
    return await this.#finish(part, last);
  }

  /** Stores the last lines of a part, and removes the part. */
  async #finish(part: Part, last: readonly LogLine[]): Promise<boolean> {
    if (!(await this.#options.store(last))) return false;
    this.#parts = this.#parts.filter((other) => other !== part);
    this.#options.onMove();
    return true;
  }
}
