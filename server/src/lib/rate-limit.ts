// Limits how often something may happen per window and key (a project, an address). Counts in the
// memory of this platform, and for a bounded number of keys. `AttemptLimits`, in the area `people`,
// counts in the database, for counts that must survive a restart.
import type { Clock } from "./clock.ts";
import { Fault } from "./fault.ts";
import { LruMap } from "./lru-map.ts";

export type RateLimitOptions = {
  /** The maximum number of uses of a key in a window, which begins with its first use. */
  readonly max: number;
  /** The length of the window; one minute by default. */
  readonly windowMs?: number;
  readonly clock: Clock;
  /** Writes the message of the fault. `used`: how many uses there were, which is `max`. */
  readonly text?: (used: number, retryAfterSeconds: number) => string;
};

/**
 * Returns a function that writes the message of a limit per minute. `done` writes how the message
 * begins, such as "The project has added 20 domains".
 */
export function perMinute(
  done: (used: number) => string,
): (used: number, retryAfterSeconds: number) => string {
  return (used, seconds) =>
    `${done(used)} within a minute, which is the limit; try again in ${seconds} s.`;
}

type Window = { readonly endsAtMs: number; count: number };

const minuteMs = 60_000;
/**
 * With more keys than this, the key that was used least recently is forgotten and gets extra uses,
 * but memory and the time per use stay bounded.
 */
const keysMax = 10_000;

/** Enforces one limit. Refused uses are not counted. */
export class RateLimit {
  readonly #options: RateLimitOptions;
  readonly #windows = new LruMap<string, Window>(keysMax);

  constructor(options: RateLimitOptions) {
    this.#options = options;
  }

  /**
   * Counts one use. Throws `Fault("rate_limited")` with the seconds until the next use is allowed.
   */
  take(key: string): void {
    const refusal = this.refusal(key);
    if (refusal !== null) throw refusal;
    this.tryTake(key);
  }

  /**
   * Like `take`, for work that is simply skipped: returns false when the limit is reached. `max` is
   * the maximum for this key. With a `max` of 0, not even the first use is allowed, for which there
   * is no window yet.
   */
  tryTake(key: string, max = this.#options.max): boolean {
    if (max === 0 || this.#waitMs(key, max) > 0) return false;
    const nowMs = this.#options.clock.monotonicMs();
    const window = this.#windows.get(key);
    if (window !== undefined && nowMs < window.endsAtMs) window.count += 1;
    else
      this.#windows.set(key, { endsAtMs: nowMs + (this.#options.windowMs ?? minuteMs), count: 1 });
    return true;
  }

  /**
   * Returns the remaining uses of the key, and the seconds to the end of its window, or the length
   * of a window that has not begun. Counts nothing.
   */
  left(key: string): {
    readonly max: number;
    readonly remaining: number;
    readonly resetSeconds: number;
  } {
    const { max, windowMs = minuteMs, clock } = this.#options;
    const window = this.#windows.get(key);
    const leftMs = window === undefined ? 0 : window.endsAtMs - clock.monotonicMs();
    const isOpen = window !== undefined && leftMs > 0;
    const remaining = isOpen ? Math.max(0, max - window.count) : max;
    const resetMs = isOpen ? leftMs : windowMs;
    return { max, remaining, resetSeconds: Math.ceil(resetMs / 1000) };
  }

  /** Returns the fault that `take` would throw, or null. Counts nothing. */
  refusal(key: string): Fault | null {
    const waitMs = this.#waitMs(key);
    if (waitMs <= 0) return null;
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
    const { max, text = tooMany } = this.#options;
    return new Fault("rate_limited", text(max, retryAfterSeconds), { retryAfterSeconds });
  }

  /** Returns the wait until the next use is allowed; 0 or less: no wait. */
  #waitMs(key: string, max = this.#options.max): number {
    const window = this.#windows.get(key);
    if (window === undefined || window.count < max) return 0;
    return window.endsAtMs - this.#options.clock.monotonicMs();
  }
}

function tooMany(used: number, seconds: number): string {
  return `This was already done ${used} times; try again in ${seconds} s.`;
}
