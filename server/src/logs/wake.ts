// Lets one reader sleep until a nudge or a timeout, whichever comes first. A nudge that arrives while the reader is busy is not
// lost: the next wait ends at once.
import type { Clock } from "#lib/clock.ts";

/** One sleeping reader. */
export class Wake {
  #isNudged = false;
  #sleeping: AbortController | undefined;

  /** Wakes the reader. */
  nudge(): void {
    this.#isNudged = true;
    this.#sleeping?.abort();
  }

  /** Resolves after a nudge, after `waitMs` or when `signal` is aborted. */
  async wait(waitMs: number, options: { clock: Clock; signal: AbortSignal }): Promise<void> {
    if (!this.#isNudged && !options.signal.aborted) {
      this.#sleeping = new AbortController();
      const either = AbortSignal.any([this.#sleeping.signal, options.signal]);
      // Rejects when it is woken early, as intended.
      await options.clock.sleep(waitMs, either).catch(() => undefined);
      this.#sleeping = undefined;
    }
    this.#isNudged = false;
  }
}
