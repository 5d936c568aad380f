// The real clock with an offset that a test can increase: `moveMs`. Only reads are shifted; timers
// run in real time.
import { systemClock, type Clock } from "#lib/clock.ts";

/** A new clock per test; `now` and `monotonicMs` move together, like real time. */
export function movableClock(): Clock & { moveMs: number } {
  const clock = {
    ...systemClock,
    moveMs: 0,
    now: () => systemClock.now() + clock.moveMs,
    monotonicMs: () => systemClock.monotonicMs() + clock.moveMs,
  };
  return clock;
}
