// Decides for all drivers when the unfinished line of an output (a progress bar, dots, a question)
// is delivered: soon, and again when it has changed. A line that ends without a further change is
// not delivered a second time.
import type { Clock } from "#lib/clock.ts";
import { unfinishedAfterMs, type OutputLine } from "./log-lines.ts";

/** The unfinished line of one stream of a replica. */
export class UnfinishedLine {
  readonly #options: { readonly clock: Clock; readonly onDue: () => void };
  /** The unfinished line as it was delivered last; null: it was not delivered yet. */
  #shown: OutputLine | null = null;
  /** Cancels the wait after which the line is due. */
  #cancel: (() => void) | undefined;
  /** True when the wait is over. */
  #isDue = false;

  /** `onDue` is called when the line may be due; call `due` then. */
  constructor(options: { readonly clock: Clock; readonly onDue: () => void }) {
    this.#options = options;
  }

  /** Returns the unfinished line when it is time to deliver it; null otherwise. */
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

  /**
   * Returns these finished lines, without the first if it was delivered with the same text while it
   * was unfinished.
   */
  finished<Finished extends OutputLine>(lines: readonly Finished[]): readonly Finished[] {
    const [first] = lines;
    if (first === undefined) return lines;
    const shown = this.#shown;
    this.stop();
    return isSame(first, shown) ? lines.slice(1) : lines;
  }

  /** Forgets the unfinished line. */
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
