// Decides when the unfinished line of an output (a progress bar, dots, a question) is delivered as
// it stands, for all drivers: soon, again when it has changed, and not a second time when it is
// finished as it was.
import type { Clock } from "#lib/clock.ts";
import { unfinishedAfterMs, type OutputLine } from "./log-lines.ts";

/** The unfinished line of one stream of a replica. */
export class UnfinishedLine {
  readonly #options: { readonly clock: Clock; readonly onDue: () => void };
  #shown: OutputLine | null = null;
  #cancel: (() => void) | undefined;
  #isDue = false;

  /** `onDue`: the line is to be looked at again. */
  constructor(options: { readonly clock: Clock; readonly onDue: () => void }) {
    this.#options = options;
  }

  /** The line to deliver now, of the one that is there: it has been unfinished for a while. */
  due(line: OutputLine | null): OutputLine | null {
    if (line === null || isSame(line, this.#shown)) return null;
    if (this.#isDue) {
      this.#isDue = false;
      this.#shown = line;
      return line;
    }
    this.#cancel ??= this.#options.clock.after(unfinishedAfterMs, () => {
      this.#cancel = undefined;
      this.#isDue = true;
      this.#options.onDue();
    });
    return null;
  }

  /** The finished lines, but for the first if it was delivered as it is. */
  finished<Finished extends OutputLine>(lines: readonly Finished[]): readonly Finished[] {
    const [first] = lines;
    if (first === undefined) return lines;
    const shown = this.#shown;
    this.stop();
    return isSame(first, shown) ? lines.slice(1) : lines;
  }

  /** Nothing is due any more. */
  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#isDue = false;
    this.#shown = null;
  }
}

function isSame(line: OutputLine, other: OutputLine | null): boolean {
  return line.text === other?.text && line.runId === other.runId;
}
