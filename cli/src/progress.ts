// One line on a terminal that is replaced while work goes on. Elsewhere nothing is shown: logs of
// CI have no use for it.
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";

const everyMs = 100;
const widthByDefault = 80;

/** Clear it before anything else is printed. */
export class Progress {
  readonly #isShown: boolean;
  #lastMs = 0;
  #hasLine = false;

  constructor(machine: Pick<Machine, "isInteractive">) {
    this.#isShown = machine.isInteractive;
  }

  /** Shows the text in the place of the last one, at most ten times a second. */
  show(text: string): void {
    const nowMs = performance.now();
    if (!this.#isShown || nowMs - this.#lastMs < everyMs) return;
    this.#lastMs = nowMs;
    this.#hasLine = true;
    process.stderr.write(
      `\r\x1b[K${plain(text).slice(0, (process.stderr.columns || widthByDefault) - 1)}`,
    );
  }

  clear(): void {
    if (this.#hasLine) process.stderr.write("\r\x1b[K");
    this.#hasLine = false;
    this.#lastMs = 0;
  }
}
