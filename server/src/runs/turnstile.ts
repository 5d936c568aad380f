// Lets so many through at once; the others wait in their order, and not for ever.
import type { Clock } from "#lib/clock.ts";

/** One gate. */
export class Turnstile {
  readonly #options: { readonly atOnce: number; readonly waitMs: number; readonly clock: Clock };
  readonly #waiting = new Set<() => void>();
  #inside = 0;

  constructor(options: { readonly atOnce: number; readonly waitMs: number; readonly clock: Clock }) {
    this.#options = options;
  }

  /** Resolves with how to leave, which is to be called once; with null when it took too long. */
  enter(): Promise<(() => void) | null> {
    const { atOnce, waitMs, clock } = this.#options;
    if (this.#inside < atOnce) {
      this.#inside++;
      return Promise.resolve(this.#leave());
    }
    return new Promise((resolve) => {
      const admit = (): void => {
        cancel();
        resolve(this.#leave());
      };
      const cancel = clock.after(waitMs, () => {
        this.#waiting.delete(admit);
        resolve(null);
      });
      this.#waiting.add(admit);
    });
  }

  /** The place goes to whoever waits longest. */
  #leave(): () => void {
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      const [next] = this.#waiting;
      if (next === undefined) {
        this.#inside--;
        return;
      }
      this.#waiting.delete(next);
      next();
    };
  }
}
