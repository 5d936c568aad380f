// Retries work that may fail for a while, such as a write while the database restarts. Each use has
// a bound, or says that it retries until the platform stops. A retry whose time is stored in a row
// only needs `backoffMs`.
import { backoffMs, type Backoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";

/** A `triesMax` without a bound: retries until the signal is aborted. */
export const untilStop = Number.POSITIVE_INFINITY;

/**
 * When to retry. `hasTryAtStop`: when the signal is aborted in a pause, one last try follows at
 * once, for data that would otherwise be lost.
 */
export type RetryPolicy = Backoff & { readonly triesMax: number; readonly hasTryAtStop?: boolean };

export type RetryOptions = RetryPolicy & {
  readonly clock: Clock;
  /**
   * Aborted when the platform stops, which ends a pause. Without `hasTryAtStop`, nothing is tried
   * or logged after the abort.
   */
  readonly signal: AbortSignal;
  /**
   * Called for each failure, for the log. `tries` counts the tries so far; `isLast`: none follows.
   */
  readonly onFailure: (error: unknown, tries: number, isLast: boolean) => void;
};

/**
 * Resolves with the first result of `act`, or with undefined after the last failed try. Never
 * rejects.
 */
export async function retry<Answer>(
  options: RetryOptions,
  act: () => Promise<Answer>,
): Promise<Answer | undefined> {
  const { triesMax, hasTryAtStop = false, clock, signal, onFailure } = options;
  const mayTry = (): boolean => hasTryAtStop || !signal.aborted;
  for (let tries = 1; mayTry(); tries++) {
    try {
      return await act();
    } catch (error) {
      const isLast = signal.aborted || tries >= triesMax;
      if (mayTry()) onFailure(error, tries, isLast);
      if (isLast) return undefined;
    }
    await clock.sleep(backoffMs(options, tries, clock.random()), signal).catch(() => undefined);
  }
  return undefined;
}
