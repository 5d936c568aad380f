// Waiting in tests: for a condition, with a deadline, never for a fixed time.
import { systemClock } from "#lib/clock.ts";

const pauseMsFirst = 2;
const pauseMsMax = 100;

/**
 * Polls `condition` until it is truthy, and returns its value. At the deadline fails with `what`
 * and the last error.
 */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  options: { deadlineMs?: number } = {},
): Promise<NonNullable<T>> {
  const { deadlineMs = 30_000 } = options;
  const end = systemClock.monotonicMs() + deadlineMs;
  let lastError: unknown;
  for (let pauseMs = pauseMsFirst; ; pauseMs = Math.min(pauseMs * 1.5, pauseMsMax)) {
    try {
      const found = await condition();
      if (found) return found;
      lastError = undefined;
    } catch (error) {
      lastError = error;
    }
    if (systemClock.monotonicMs() >= end) {
      throw new Error(`within ${deadlineMs} ms it did not come true: ${what}`, {
        cause: lastError,
      });
    }
    await systemClock.sleep(pauseMs);
  }
}
