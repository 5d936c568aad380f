// Trying again what fails for a while, such as a write while the database restarts. Each use has a bound, or says that it
// goes on until the platform stops. What is tried again at a time that stands in a row needs `backoffMs` only.
import { backoffMs, type Backoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";

/** A `triesMax` without a bound: until the signal is aborted. */
export const untilStop = Number.POSITIVE_INFINITY;

/** `hasTryAtStop`: one try is made once the signal is aborted, for what would be lost without it. */
export type RetryPolicy = Backoff & { readonly triesMax: number; readonly hasTryAtStop?: boolean };

export type RetryOptions = RetryPolicy & {
  readonly clock: Clock;
  /** Aborted at stop: ends a pause, and nothing is tried or logged after it but with `hasTryAtStop`. */
  readonly signal: AbortSignal;
  /** Called with each failure, for the log. `isLast`: it is given up. */
  readonly onFailure: (error: unknown, tries: number, isLast: boolean) => void;
};

/** What `act` resolves with, as soon as it does; undefined when it was given up. Never rejects. */
export async function retry<Answer>(options: RetryOptions, act: () => Promise<Answer>): Promise<Answer | undefined> {
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
