// Reads the output of a program as lines, at a pace that leaves the platform time for other work: a
// line costs more to read than to print. A program that prints faster blocks on its full pipe.
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { Clock } from "./clock.ts";

/** One of the two outputs of a program. */
export type OutputName = "stdout" | "stderr";

/**
 * Longer lines are cut off: a build that prints megabytes without a newline must not fill the
 * memory.
 */
const lineCharactersMax = 8192;
/**
 * The limits of one turn add up to 10 000 lines and 25 MB per second, more than any honest program
 * prints for long.
 */
const turnMs = 20;
const linesPerTurn = 200;
const bytesPerTurn = 524_288;

/** Starts reading at once. Passes on lines in the order in which their ends were read. */
export class CommandOutput {
  readonly #sources: readonly Readable[];
  readonly #splitters: readonly LineSplitter[];
  readonly #onLine: (name: OutputName, text: string) => void;
  readonly #clock: Clock;
  /** The lines that were read. The lines from the index `#next` on are not yet passed on. */
  #waiting: (readonly [OutputName, string])[] = [];
  #next = 0;
  #turnBeganMs = Number.NEGATIVE_INFINITY;
  /** How many lines this turn has passed on, and how many bytes it has read. */
  #lines = 0;
  #bytes = 0;
  /** Cancels the wait for the next turn; undefined: nothing waits for it. */
  #cancelTurn: (() => void) | undefined;
  /** Resolves the promise of `finish`, once that was called. */
  #onEmpty: (() => void) | undefined;
  #isStopped = false;

  constructor(options: {
    readonly sources: readonly (readonly [OutputName, Readable])[];
    readonly onLine: (name: OutputName, text: string) => void;
    readonly clock: Clock;
    /** Whether only a newline ends a line; otherwise a carriage return does so, too. */
    readonly keepsReturns: boolean;
  }) {
    // A return at the end of what has arrived ends no line yet, since its newline may follow.
    const ends = options.keepsReturns ? /\n/ : /\r?\n|\r(?!$)/;
    this.#onLine = options.onLine;
    this.#clock = options.clock;
    this.#sources = options.sources.map(([, source]) => source);
    this.#splitters = options.sources.map(([name]) =>
      lineSplitter(ends, (text) => this.#waiting.push([name, text])),
    );
    for (const [index, source] of this.#sources.entries()) {
      source.on("data", (chunk: Buffer) => this.#take(index, chunk));
    }
  }

  /** Passes on no more lines; called when the program was killed. */
  stop(): void {
    this.#isStopped = true;
    this.#waiting = [];
    this.#next = 0;
    this.#release();
  }

  /**
   * Resolves when all lines, including unfinished ones, have been passed on. Call it when no more
   * output can arrive.
   */
  finish(): Promise<void> {
    for (const splitter of this.#splitters) splitter.end();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
      this.#work();
    });
  }

  #take(index: number, chunk: Buffer): void {
    if (this.#isStopped) return;
    if (this.#clock.monotonicMs() - this.#turnBeganMs >= turnMs) this.#beginTurn();
    this.#bytes += chunk.length;
    this.#splitters[index]?.push(chunk);
    this.#work();
  }

  #work(): void {
    const mayGoOn = (): boolean => this.#lines < linesPerTurn && !this.#isStopped;
    while (this.#next < this.#waiting.length && mayGoOn()) {
      // The index is below the length, so that the default is never used.
      const [name, text] = this.#waiting[this.#next] ?? ["stdout", ""];
      this.#next++;
      this.#onLine(name, text);
      this.#lines++;
    }
    const isEmpty = this.#isStopped || this.#next === this.#waiting.length;
    if (isEmpty) {
      this.#waiting = [];
      this.#next = 0;
      this.#onEmpty?.();
    }
    const mayRead = this.#isStopped || this.#bytes < bytesPerTurn;
    if (isEmpty && mayRead) this.#release();
    else this.#hold();
  }

  #beginTurn(): void {
    this.#turnBeganMs = this.#clock.monotonicMs();
    this.#lines = 0;
    this.#bytes = 0;
  }

  /** Reads no more until the next turn. */
  #hold(): void {
    for (const source of this.#sources) source.pause();
    const leftMs = this.#turnBeganMs + turnMs - this.#clock.monotonicMs();
    this.#cancelTurn ??= this.#clock.after(leftMs, () => {
      this.#cancelTurn = undefined;
      this.#beginTurn();
      this.#work();
    });
  }

  /** Reads on, without waiting for the next turn. */
  #release(): void {
    this.#cancelTurn?.();
    this.#cancelTurn = undefined;
    for (const source of this.#sources) if (source.isPaused()) source.resume();
  }
}

type LineSplitter = { push(chunk: Buffer): void; end(): void };

/** Cuts a byte stream into lines; drops the part of a line beyond the limit. */
function lineSplitter(ends: RegExp, onLine: (text: string) => void): LineSplitter {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  /** Whether what arrives belongs to a line whose beginning was already passed on. */
  let isCut = false;
  const line = (text: string): void => {
    if (!isCut) onLine(text.slice(0, lineCharactersMax));
    isCut = false;
  };
  return {
    push(chunk) {
      const parts = (rest + decoder.write(chunk)).split(ends);
      rest = parts.pop() ?? "";
      for (const part of parts) line(part);
      if (rest.length > lineCharactersMax) {
        line(rest);
        rest = "";
        isCut = true;
      }
    },
    end() {
      const last = (rest + decoder.end()).replace(/\r$/, "");
      if (last !== "") line(last);
      rest = "";
    },
  };
}
