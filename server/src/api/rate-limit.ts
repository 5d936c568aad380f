// How many times something may be done within a minute, by key (a project), in memory of this platform.
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { LruMap } from "#lib/lru-map.ts";

const windowMs = 60_000;
/** Whoever has more keys than this to use gets more uses; the memory does not grow, and no use takes longer for it. */
const keysMost = 10_000;

/** The sentence for whoever has used up what there is. */
type Refusal = (used: number, retryAfterSeconds: number) => string;

function tooManyDeployments(used: number, seconds: number): string {
  return `The project has started ${used} deployments within a minute, which is the limit; try again in ${seconds} s.`;
}

/** A sliding window: at most `most` uses of a key within any minute. */
export class RateLimit {
  readonly #most: number;
  readonly #clock: Clock;
  readonly #refusal: Refusal;
  readonly #uses = new LruMap<string, number[]>(keysMost);

  constructor(options: { readonly most: number; readonly clock: Clock; readonly refusal?: Refusal }) {
    this.#most = options.most;
    this.#clock = options.clock;
    this.#refusal = options.refusal ?? tooManyDeployments;
  }

  /** Counts one use. Throws `Fault("rate_limited")`, which counts nothing, with the seconds until there is room again. */
  take(key: string): void {
    const now = this.#clock.monotonicMs();
    const recent = (this.#uses.get(key) ?? []).filter((usedAt) => usedAt > now - windowMs);
    const [oldest] = recent;
    if (recent.length >= this.#most && oldest !== undefined) {
      const retryAfterSeconds = Math.max(1, Math.ceil((oldest + windowMs - now) / 1000));
      throw new Fault("rate_limited", this.#refusal(recent.length, retryAfterSeconds), { retryAfterSeconds });
    }
    recent.push(now);
    this.#uses.set(key, recent);
  }

  /** As `take`, for what is only left undone: false when there is no room. */
  tryTake(key: string): boolean {
    try {
      this.take(key);
      return true;
    } catch (error) {
      if (error instanceof Fault) return false;
      throw error;
    }
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#uses.size;
  }
}
