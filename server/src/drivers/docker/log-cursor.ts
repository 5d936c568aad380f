// Keeps the position in the log of a container from which reading continues. Pure.
import type { RunId } from "#lib/ids.ts";
import { cutLines } from "#drivers/log-lines.ts";
import { droppedText } from "#drivers/stored-lines.ts";
import type { LogMessage } from "./log-frames.ts";

export type Stream = LogMessage["stream"];

/**
 * How far a log was delivered. Times are texts in the engine's form, which sort in the order of
 * time; empty: the beginning.
 */
export type LogReach = {
  /** Messages up to this time were delivered. */
  readonly position: string;
  /**
   * The time of the last delivered message of each stream. It may be later than `position` while
   * the other stream has an unfinished line.
   */
  readonly reached: Readonly<Record<Stream, string>>;
};

export type LogLine = {
  readonly stream: Stream;
  readonly time: string;
  readonly runId: RunId | null;
  readonly text: string;
};

type Taken = { readonly lines: readonly LogLine[]; readonly next: LogReach };

/** Both streams of a container. */
export const streams: readonly Stream[] = ["stdout", "stderr"];
/** The reach of a log of which nothing was delivered. */
export const logBegin: LogReach = { position: "", reached: { stdout: "", stderr: "" } };

/**
 * Each stream is in order, but the two are not in order with each other: a message of one stream
 * may stand after messages of the other stream that are later by up to this time.
 */
export const strayMs = 5_000;

/**
 * The beginning of an unfinished line, with its time. `isCutting`: the line was too long, so that
 * its beginning is a line already and the rest of it is skipped.
 */
type Rest = { readonly bytes: Buffer; readonly isCutting: boolean; readonly time: string };

const noRest: Rest = { bytes: Buffer.alloc(0), isCutting: false, time: "" };

/** A position in the log of one container, which moves on. */
export class LogCursor {
  readonly #hasFrames: boolean;
  #reach: LogReach;
  /** The position at which the current answer of the engine begins. */
  #begin: LogReach;
  readonly #rests: Record<Stream, Rest>;
  /** True when the engine is known to have deleted no line right after the position. */
  #isWhole: boolean;

  constructor(reach: LogReach, { hasFrames }: { readonly hasFrames: boolean }) {
    this.#hasFrames = hasFrames;
    this.#reach = reach;
    this.#begin = reach;
    this.#rests = { stdout: noRest, stderr: noRest };
    this.#isWhole = reach.position === "";
  }

  get reach(): LogReach {
    return this.#reach;
  }

  /** Called before the log is read again from the position, with unfinished lines in full. */
  readAgain(): void {
    this.#begin = this.#reach;
    this.#isWhole = this.#reach.position === "";
    for (const stream of streams) this.#rests[stream] = noRest;
  }

  /** The time from which the log has to be read; empty for all of it. */
  get since(): { readonly since?: string } {
    const { position, reached } = this.#reach;
    const earlier = reached.stdout < reached.stderr ? reached.stdout : reached.stderr;
    // Nothing that was logged before either of these times is new, so the later of them is taken. A
    // time that is empty, and so no number, does not count.
    const times = [Date.parse(position) - strayMs, Date.parse(earlier)];
    const ms = Math.max(...times.filter((time) => !Number.isNaN(time)));
    return Number.isFinite(ms) ? { since: engineTime(ms) } : {};
  }

  /**
   * Returns the lines that end in these messages of the log, and the reach once they are delivered.
   * Skips messages that were delivered before, or are later than `to`.
   */
  take(messages: readonly LogMessage[], to: string | null = null): Taken {
    const lines: LogLine[] = [];
    const reached = { ...this.#reach.reached };
    let { position } = this.#reach;
    for (const message of messages) {
      const { stream, time } = message;
      // The reach at the beginning of the answer decides: the parts of a long line have the same
      // time, so the next part is new although that time has been reached.
      const isNew = time > this.#begin.reached[stream];
      // The log still has a message that was delivered, so nothing after it was deleted.
      if (!isNew) this.#isWhole = true;
      if (!isNew || (to !== null && time > to)) continue;
      lines.push(...this.missing(time), ...this.#cut(message, false));
      // An unfinished line is read again from its beginning.
      if (this.#rests[stream].bytes.length === 0) reached[stream] = time;
      if (this.#hasNoRest) position = time;
    }
    return { lines, next: { position, reached } };
  }

  moveTo(reach: LogReach): void {
    this.#reach = reach;
  }

  get #hasNoRest(): boolean {
    const { stdout, stderr } = this.#rests;
    return stdout.bytes.length === 0 && stderr.bytes.length === 0;
  }

  /** The streams with an unfinished line. */
  get unfinished(): readonly Stream[] {
    return streams.filter((stream) => this.#rests[stream].bytes.length > 0);
  }

  /** Returns the unfinished lines. Call it when no more output follows. */
  end(): readonly LogLine[] {
    return streams.flatMap((stream) => {
      const { time } = this.#rests[stream];
      return this.#cut({ stream, time, bytes: noRest.bytes }, true);
    });
  }

  /** Returns, once, the line that says that the engine has deleted lines before they were read. */
  missing(time: string): readonly LogLine[] {
    if (this.#isWhole) return [];
    this.#isWhole = true;
    return [droppedLine(time)];
  }

  #cut({ stream, time, bytes }: LogMessage, isEnd: boolean): LogLine[] {
    const rest = this.#rests[stream];
    const buffer = rest.bytes.length === 0 ? bytes : Buffer.concat([rest.bytes, bytes]);
    const cut = cutLines(buffer, {
      isCutting: rest.isCutting,
      isEnd,
      hasFrames: this.#hasFrames,
    });
    this.#rests[stream] = { bytes: buffer.subarray(cut.bytes), isCutting: cut.isCutting, time };
    return cut.lines.map(({ runId, text }) => ({ stream, time, runId, text }));
  }
}

/** Returns the line that replaces lines which the engine may have deleted. */
export function droppedLine(time: string): LogLine {
  return { stream: "stdout", time, runId: null, text: droppedText(null) };
}

/** Returns a time in the form that the engine takes in requests. */
export function engineTime(ms: number): string {
  return (ms / 1000).toFixed(3);
}
