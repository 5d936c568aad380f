// Lets so many through at once; the others wait, and not for ever. Whoever comes under one key (a project) leaves as many
// places to others as it takes itself, so that its slow ones do not shut everybody else out.
import type { Clock } from "#lib/clock.ts";

export type TurnstileOptions = {
  readonly atOnce: number;
  /** Null: whoever waits is let in in the end. */
  readonly waitMs: number | null;
  readonly clock: Clock;
};

type Waiting = { readonly key: string; readonly admit: () => void };

/** Who comes when so many wait is turned away at once. */
const waitingMax = 2_000;

/** One gate. */
export class Turnstile {
  readonly #options: TurnstileOptions;
  readonly #waiting = new Set<Waiting>();
  readonly #ofKey = new Map<string, number>();
  #inside = 0;

  constructor(options: TurnstileOptions) {
    this.#options = options;
  }

  /** Resolves with how to leave, which is to be called once; with null when it took too long or too many wait. */
  enter(key: string): Promise<(() => void) | null> {
    if (this.#hasRoom(key)) return Promise.resolve(this.#in(key));
    const { waitMs, clock } = this.#options;
    if (waitMs !== null && this.#waiting.size >= waitingMax) return Promise.resolve(null);
    return new Promise((resolve) => {
      const waiting: Waiting = {
        key,
        admit: () => {
          cancel();
          resolve(this.#in(key));
        },
      };
      const cancel =
        waitMs === null
          ? (): void => undefined
          : clock.after(waitMs, () => {
              this.#waiting.delete(waiting);
              resolve(null);
            });
      this.#waiting.add(waiting);
    });
  }

  #hasRoom(key: string): boolean {
    const free = this.#options.atOnce - this.#inside;
    const ofKey = this.#ofKey.get(key) ?? 0;
    return free > 0 && (ofKey === 0 || ofKey < free);
  }

  #in(key: string): () => void {
    this.#inside++;
    this.#ofKey.set(key, (this.#ofKey.get(key) ?? 0) + 1);
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      this.#out(key);
    };
  }

  /** The place goes to whoever waits longest of those whose key may have it. */
  #out(key: string): void {
    this.#inside--;
    const ofKey = (this.#ofKey.get(key) ?? 1) - 1;
    if (ofKey === 0) this.#ofKey.delete(key);
    else this.#ofKey.set(key, ofKey);
    for (const waiting of this.#waiting) {
      if (this.#inside >= this.#options.atOnce) return;
      if (!this.#hasRoom(waiting.key)) continue;
      this.#waiting.delete(waiting);
      waiting.admit();
    }
  }
}
