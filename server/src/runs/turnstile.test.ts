// The gate before large bodies: so many at once, in order, and not for ever.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Turnstile } from "./turnstile.ts";

test("so many are inside at once, and a place that becomes free goes to whoever waits longest", async () => {
  const gate = new Turnstile({ atOnce: 1, waitMs: 1_000, clock: new VirtualClock() });
  const entered: number[] = [];
  const leave = await gate.enter();
  const others = [1, 2].map(async (number) => {
    const out = await gate.enter();
    entered.push(number);
    return out;
  });
  await Promise.resolve();
  assert.deepEqual(entered, []);
  leave?.();
  leave?.();
  (await others[0])?.();
  assert.deepEqual(entered, [1]);
  (await others[1])?.();
  assert.deepEqual(entered, [1, 2]);
  assert.notEqual(await gate.enter(), null);
});

test("whoever waits too long is turned away, and is not let in later", async () => {
  const clock = new VirtualClock();
  const gate = new Turnstile({ atOnce: 1, waitMs: 1_000, clock });
  const leave = await gate.enter();
  const waiting = gate.enter();
  await clock.advance(1_000);
  assert.equal(await waiting, null);
  leave?.();
  assert.notEqual(await gate.enter(), null);
});
