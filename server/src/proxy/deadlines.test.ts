// Deadlines come when they are due and not before, whatever else is set and cleared meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Deadlines, Timed } from "./deadlines.ts";

const tickMs = 100;

class Probe extends Timed {
  readonly firedAtMs: number[] = [];
  again: (() => void) | undefined;

  override onDeadline(nowMs: number): void {
    this.firedAtMs.push(nowMs);
    this.again?.();
  }
}

test("a deadline comes once, at most one tick late, never early", async () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock, tickMs);
  for (const ms of [0, 1, 99, 100, 101, 51_200, 51_201, 900_000, 43_200_000]) {
    const probe = new Probe();
    const dueMs = clock.monotonicMs() + ms;
    deadlines.set(probe, dueMs);
    await clock.advance(Math.max(0, ms - 1));
    if (ms > 0) assert.deepEqual(probe.firedAtMs, [], `${ms} ms is not over`);
    await clock.advance(2 * tickMs);
    const [firedAtMs = Number.NaN] = probe.firedAtMs;
    assert.ok(
      firedAtMs >= dueMs && firedAtMs <= dueMs + tickMs,
      `due at ${dueMs}, came at ${firedAtMs}`,
    );
    await clock.advance(100_000);
    assert.equal(probe.firedAtMs.length, 1);
  }
});

test("nothing ticks while nothing waits", async () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock, tickMs);
  const probe = new Probe();
  deadlines.set(probe, 1_000);
  deadlines.clear(probe);
  deadlines.clear(probe);
  assert.equal(deadlines.size, 0);
  let ticks = 0;
  await clock.advance(10_000, () => ticks++);
  assert.ok(ticks <= 1, `${ticks} ticks`);
  assert.deepEqual(probe.firedAtMs, []);
});

test("what a deadline brings about may set and clear others, due ones included", async () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock, tickMs);
  const first = new Probe();
  const second = new Probe();
  first.again = () => {
    deadlines.clear(second);
    if (first.firedAtMs.length < 3) deadlines.set(first, clock.monotonicMs() + 250);
  };
  deadlines.set(first, 50);
  deadlines.set(second, 50);
  await clock.advance(5_000);
  assert.equal(first.firedAtMs.length, 3);
  assert.deepEqual(second.firedAtMs, []);
  assert.equal(deadlines.size, 0);
});

test("any order of setting and clearing leaves the right ones", async () => {
  const step = fc.record({
    ms: fc.integer({ min: 0, max: 120_000 }),
    isCleared: fc.boolean(),
    pauseMs: fc.nat(400),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const clock = new VirtualClock();
      const deadlines = new Deadlines(clock, tickMs);
      const kept: { probe: Probe; dueMs: number }[] = [];
      for (const { ms, isCleared, pauseMs } of steps) {
        const probe = new Probe();
        const dueMs = clock.monotonicMs() + ms;
        deadlines.set(probe, dueMs);
        if (isCleared) deadlines.clear(probe);
        else kept.push({ probe, dueMs });
        await clock.advance(pauseMs);
      }
      await clock.advance(121_000);
      assert.equal(deadlines.size, 0);
      for (const { probe, dueMs } of kept) {
        assert.equal(probe.firedAtMs.length, 1);
        assert.ok(
          (probe.firedAtMs[0] ?? 0) >= dueMs && (probe.firedAtMs[0] ?? 0) <= dueMs + 2 * tickMs,
        );
      }
    }),
    { numRuns: 20 },
  );
});
