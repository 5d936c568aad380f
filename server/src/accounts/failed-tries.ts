// Counts failed tries by whoever made them, within windows of a minute, in memory of this platform and within a bound.
import { Fault } from "#lib/fault.ts";
import type { Clock } from "#lib/clock.ts";
import { LruMap } from "#lib/lru-map.ts";

type Window = { readonly endsAtMs: number; count: number };

const windowMs = 60_000;
/** Whoever has more addresses than this to try from gets more tries; the memory does not grow. */
const keysMost = 10_000;

/** At most `most` failed tries of a key within a minute; what follows is refused until the minute is over. */
export class FailedTries {
  readonly #most: number;
  readonly #clock: Clock;
  readonly #windows = new LruMap<string, Window>(keysMost);

  constructor(options: { readonly most: number; readonly clock: Clock }) {
    this.#most = options.most;
    this.#clock = options.clock;
  }

  /** Why the key may not try now; null: it may. */
  refusal(key: string): Fault | null {
    const window = this.#windows.get(key);
    if (window === undefined || window.count < this.#most) return null;
    const leftMs = window.endsAtMs - this.#clock.monotonicMs();
    if (leftMs <= 0) return null;
    const retryAfterSeconds = Math.max(1, Math.ceil(leftMs / 1000));
    const message = `Too many tokens that are not valid were sent within a minute; try again in ${retryAfterSeconds} s.`;
    return new Fault("rate_limited", message, { retryAfterSeconds });
  }

  /** Counts a failed try. */
  count(key: string): void {
    const nowMs = this.#clock.monotonicMs();
    const window = this.#windows.get(key);
    if (window !== undefined && nowMs < window.endsAtMs) window.count += 1;
    else this.#windows.set(key, { endsAtMs: nowMs + windowMs, count: 1 });
  }
}
