// A clock that stands still until a test moves it. Timers run in the order of their times, one
// after the other; everything that follows from one (including promises) happens before the next
// one. Randomness is the midpoint unless it is injected.
import type { Clock } from "#lib/clock.ts";

type Timer = { readonly atMs: number; readonly order: number; readonly run: () => void };

/** Starts at a fixed date; `now` and `monotonicMs` move together. */
export class VirtualClock implements Clock {
  static readonly beginMs = Date.UTC(2026, 0, 1);
  #nowMs = 0;
  #order = 0;
  readonly #timers = new Set<Timer>();
  readonly random: () => number;

  constructor(random: () => number = () => 0.5) {
    this.random = random;
  }

  now(): number {
    return VirtualClock.beginMs + this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  isSettled(): boolean {
    return true;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#nowMs + Math.max(0, ms), order: this.#order++, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const onAbort = (): void => {
        cancel();
        reject(signal?.reason as Error);
      };
      const cancel = this.after(ms, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /**
   * Moves the time by `ms`; `after` is called after each timer and everything that followed from
   * it.
   */
  async advance(ms: number, after: () => void = () => undefined): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settled();
    for (let timer = this.#next(untilMs); timer !== undefined; timer = this.#next(untilMs)) {
      this.#timers.delete(timer);
      this.#nowMs = timer.atMs;
      timer.run();
      await settled();
      after();
    }
    this.#nowMs = untilMs;
  }

  #next(untilMs: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.atMs > untilMs) continue;
      if (
        next === undefined ||
        timer.atMs < next.atMs ||
        (timer.atMs === next.atMs && timer.order < next.order)
      ) {
        next = timer;
      }
    }
    return next;
  }
}

/** Resolves when no promise callbacks are pending. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
