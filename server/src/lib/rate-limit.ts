// How often something may be done within a time, by key (a project, an address), in memory of this platform and within a
// bound. `AttemptLimits` of people counts in the database, for what a restart must not forget.
import type { Clock } from "./clock.ts";
import { Fault } from "./fault.ts";
import { LruMap } from "./lru-map.ts";

export type RateLimitOptions = {
  /** Uses of a key within a window, which begins with the first of them. */
  readonly max: number;
  /** A minute unless given. */
  readonly windowMs?: number;
  readonly clock: Clock;
  /** The sentence for whoever has used up what there is. */
  readonly text?: (used: number, retryAfterSeconds: number) => string;
};

type Window = { readonly endsAtMs: number; count: number };

const minuteMs = 60_000;
/** Whoever has more keys than this to use gets more uses; the memory does not grow, and no use takes longer for it. */
const keysMax = 10_000;

/** One limit. What is refused is not counted. */
export class RateLimit {
  readonly #options: RateLimitOptions;
  readonly #windows = new LruMap<string, Window>(keysMax);

  constructor(options: RateLimitOptions) {
    this.#options = options;
  }

  /** Counts one use. Throws `Fault("rate_limited")` with the seconds until there is room again. */
  take(key: string): void {
    const refusal = this.refusal(key);
    if (refusal !== null) throw refusal;
    this.tryTake(key);
  }

  /** As `take`, for what is only left undone: false when there is no room. */
  tryTake(key: string): boolean {
    if (this.#waitMs(key) > 0) return false;
    const nowMs = this.#options.clock.monotonicMs();
    const window = this.#windows.get(key);
    if (window !== undefined && nowMs < window.endsAtMs) window.count += 1;
    else this.#windows.set(key, { endsAtMs: nowMs + (this.#options.windowMs ?? minuteMs), count: 1 });
    return true;
  }

  /** What `take` would throw; null: there is room. Counts nothing. */
  refusal(key: string): Fault | null {
    const waitMs = this.#waitMs(key);
    if (waitMs <= 0) return null;
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
    const { max, text = tooMany } = this.#options;
    return new Fault("rate_limited", text(max, retryAfterSeconds), { retryAfterSeconds });
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#windows.size;
  }

  /** Until there is room; 0 or less: there is. */
  #waitMs(key: string): number {
    const window = this.#windows.get(key);
    if (window === undefined || window.count < this.#options.max) return 0;
    return window.endsAtMs - this.#options.clock.monotonicMs();
  }
}

function tooMany(used: number, seconds: number): string {
  return `This was already done ${used} times; try again in ${seconds} s.`;
}
