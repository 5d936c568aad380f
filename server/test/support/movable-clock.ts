// The real clock, which a test can put forward: `moveMs` is how far. Timers run as they would; only what is read moves.
import { systemClock, type Clock } from "#lib/clock.ts";

/** One of its own for each test; `now` and `monotonicMs` move together, as time does. */
export function movableClock(): Clock & { moveMs: number } {
  const clock = {
    ...systemClock,
    moveMs: 0,
    now: () => systemClock.now() + clock.moveMs,
    monotonicMs: () => systemClock.monotonicMs() + clock.moveMs,
  };
  return clock;
}
