// The platform's clock on a machine whose clock, monotonic time and sleep are moved one by one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SteadyClock } from "./steady-clock.ts";
import { systemClock } from "./clock.ts";
import { silentLog, type Log } from "./log.ts";

/** How long a jump lasts before it is adopted. */
const adoptAfterMs = 600_000;
const beganMs = Date.UTC(2026, 0, 1);
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** A machine whose wall clock, monotonic time and sleep move apart. */
function machine() {
  const state = { monotonicMs: 5_000, aheadMs: 0, sleptMs: 0 };
  const base = {
    ...systemClock,
    now: () => Math.floor(beganMs + state.monotonicMs + state.sleptMs + state.aheadMs),
    monotonicMs: () => state.monotonicMs,
  };
  const warned: string[] = [];
  const log = {
    ...silentLog,
    warn: ({ kind }: { kind: string }) => warned.push(kind),
  } as unknown as Log;
  const clock = new SteadyClock(base, () => state.monotonicMs + state.sleptMs);
  clock.watch(log);
  /** What the clock should say by the time that passed. */
  const trueMs = (): number => beganMs + state.monotonicMs + state.sleptMs;
  return { state, clock, warned, trueMs };
}

test("a step in either direction changes nothing while it lasts, is told once, and so is its end", () => {
  for (const stepMs of [hourMs, 400 * dayMs, -2 * hourMs, 1_500, -1_500]) {
    const { state, clock, warned, trueMs } = machine();
    state.aheadMs = stepMs;
    for (let look = 0; look < 6; look++) {
      state.monotonicMs += 1_000;
      assert.equal(clock.now(), trueMs(), `${stepMs} ms`);
      assert.equal(clock.isSettled(), false, "nothing is removed meanwhile");
    }
    state.aheadMs = 0;
    assert.equal(clock.now(), trueMs());
    assert.equal(clock.isSettled(), true);
    assert.deepEqual(warned, ["stepped", "went back"]);
  }
});

test("small corrections are followed at once, however many", () => {
  const { state, clock, warned, trueMs } = machine();
  for (let count = 0; count < 100; count++) {
    state.monotonicMs += 1_000;
    state.aheadMs += 400;
    assert.ok(Math.abs(clock.now() - trueMs() - state.aheadMs) <= 1);
  }
  assert.deepEqual(warned, []);
});

test("a step that stays is followed after ten minutes, and nothing is removed for a day then", () => {
  const { state, clock, warned, trueMs } = machine();
  state.aheadMs = -2 * hourMs;
  clock.now();
  state.monotonicMs += adoptAfterMs - 1;
  assert.equal(clock.now(), trueMs());
  state.monotonicMs += 1;
  assert.equal(clock.now(), trueMs() - 2 * hourMs);
  assert.deepEqual(warned, ["stepped", "adopted"]);
  state.monotonicMs += dayMs - 1;
  assert.equal(clock.isSettled(), false);
  state.monotonicMs += 1;
  assert.equal(clock.isSettled(), true);
});

test("a clock that goes on stepping is not followed: each place has to stay", () => {
  const { state, clock, trueMs } = machine();
  for (let count = 1; count < 20; count++) {
    state.aheadMs = count * hourMs;
    state.monotonicMs += adoptAfterMs / 2;
    assert.equal(clock.now(), trueMs());
  }
});

test("what the machine slept is no step", () => {
  const { state, clock, warned, trueMs } = machine();
  state.sleptMs = 8 * hourMs;
  state.monotonicMs += 20;
  assert.equal(clock.now(), trueMs());
  assert.equal(clock.isSettled(), true);
  assert.deepEqual(warned, []);
});
