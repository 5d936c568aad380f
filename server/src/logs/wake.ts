// Lets one reader sleep until there is something to look at: a nudge, or a while, whichever comes first. A nudge that
// comes while the reader looks is not lost: the next wait ends at once.
import type { Clock } from "#lib/clock.ts";

/** One sleeping reader. */
export class Wake {
  #isNudged = false;
  #sleeping: AbortController | undefined;

  /** Look again. */
  nudge(): void {
    this.#isNudged = true;
    this.#sleeping?.abort();
  }

  /** Resolves after a nudge, after `waitMs` or when `signal` is aborted. */
  async wait(waitMs: number, options: { clock: Clock; signal: AbortSignal }): Promise<void> {
    if (!this.#isNudged && !options.signal.aborted) {
      this.#sleeping = new AbortController();
      const either = AbortSignal.any([this.#sleeping.signal, options.signal]);
      // Rejects when it is woken early, which is what was asked for.
      await options.clock.sleep(waitMs, either).catch(() => undefined);
      this.#sleeping = undefined;
    }
    this.#isNudged = false;
  }
}
