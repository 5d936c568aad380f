// What was skipped of the log of a container, because newer output came first: parts of it, which
// are read when nothing newer is there, one after the other and the newest first.
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

/** What follows the position, up to and with the messages of the time `to`. */
export type SkippedMessages = LogReach & { readonly to: string };

export type SkippedOutputOptions = LogRequestOptions & {
  readonly hasFrames: boolean;
  readonly clock: Clock;
  /** All that the stream printed up to this time is in the log. */
  readonly isLogged: (stream: Stream, to: string) => boolean;
  /** False when closed before the lines were stored. */
  readonly store: (lines: readonly LogLine[]) => Promise<boolean>;
  /** There are other parts, or less is left of them. */
  readonly onMove: () => void;
};

type Part = {
  readonly cursor: LogCursor;
  readonly to: string;
  /** The stream whose last line has not ended in what was read. */
  waitsFor: Stream | null;
};

type Reading = {
  readonly part: Part;
  readonly request: LogRequest;
  /** Streams of which the answer has all lines to their end. */
  readonly whole: readonly Stream[];
};

/** Each takes space in the stored position. The oldest are dropped. */
const partsMax = 100;

/** The parts of one container. */
export class SkippedOutput {
  readonly #options: SkippedOutputOptions;
  #parts: Part[];
  #reading: Reading | null = null;
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

  /** Some are to be read soon. */
  get isBehind(): boolean {
    return this.#parts.some(({ waitsFor }) => waitsFor === null);
  }

  /** False when closed meanwhile. */
  async add(part: SkippedMessages): Promise<boolean> {
    this.#parts.push(this.#partOf(part));
    const oldest = this.#parts[0];
    if (oldest === undefined || this.#parts.length <= partsMax) return true;
    if (this.#reading?.part === oldest) this.stop();
    return await this.#finish(oldest, [droppedLine(oldest.to)]);
  }

  /** Stores some lines of the part that is next. False: there is nothing to read now. */
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

  /** What is being read is read again. */
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

  #begin(): Reading | null {
    const { isLogged, clock, onChange } = this.#options;
    this.#cancelWait?.();
    const isAll = (part: Part): boolean =>
      part.waitsFor === null || isLogged(part.waitsFor, part.to);
    const ready = this.#parts.filter(isAll);
    const part = ready.findLast((one) => this.#waitMs(one) <= 0);
    if (part === undefined) {
      const waits = ready.map((one) => this.#waitMs(one));
      this.#cancelWait = ready.length === 0 ? undefined : clock.after(Math.min(...waits), onChange);
      return null;
    }
    part.cursor.readAgain();
    // The rest of a long line may be much later in the log.
    const isToEnd = part.waitsFor !== null;
    const until = isToEnd ? {} : { until: engineTime(Date.parse(part.to) + strayMs) };
    const request = new LogRequest(this.#options, {
      follow: false,
      ...until,
      ...part.cursor.since,
    });
    const whole = streams.filter((stream) => isToEnd && isLogged(stream, part.to));
    return { part, request, whole };
  }

  /** Until stray messages of its time are in the log. */
  #waitMs({ to }: Part): number {
    const { isLogged, clock } = this.#options;
    if (streams.every((stream) => isLogged(stream, to))) return 0;
    return Date.parse(to) + strayMs - clock.now();
  }

  async #end({ part, whole }: Reading): Promise<boolean> {
    const begun = part.cursor.unfinished.find((stream) => !whole.includes(stream));
    this.stop();
    part.waitsFor = begun ?? null;
    if (begun !== undefined) return true;
    const last = [...part.cursor.missing(part.to), ...part.cursor.end()];
    return await this.#finish(part, last);
  }

  async #finish(part: Part, last: readonly LogLine[]): Promise<boolean> {
    if (!(await this.#options.store(last))) return false;
    this.#parts = this.#parts.filter((one) => one !== part);
    this.#options.onMove();
    return true;
  }
}
