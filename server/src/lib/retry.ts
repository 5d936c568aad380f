// Retries work that may fail for a while, such as a write while the database restarts. Each use has
// a bound, or says that it retries until the platform stops. A retry whose time is stored in a row
// only needs `backoffMs`.
import { backoffMs, type Backoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";

/** A `triesMax` without a bound: retries until the signal is aborted. */
export const untilStop = Number.POSITIVE_INFINITY;

/**
 * When to retry. `hasTryAtStop`: there is one more try after the signal is aborted, for data that
 * would otherwise be lost.
 */
export type RetryPolicy = Backoff & { readonly triesMax: number; readonly hasTryAtStop?: boolean };

export type RetryOptions = RetryPolicy & {
  readonly clock: Clock;
  /** Aborted at stop: ends a pause; without `hasTryAtStop`, nothing is tried or logged after it. */
  readonly signal: AbortSignal;
  /** Called with each failure, for the log. `isLast`: there is no further try. */
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
