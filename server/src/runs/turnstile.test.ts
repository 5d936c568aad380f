// The gate before large bodies: so many at once, in order, fairly by key, and not for ever.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Turnstile } from "./turnstile.ts";

test("so many are inside at once, and a place that becomes free goes to whoever waits longest", async () => {
  const gate = new Turnstile({ atOnce: 1, waitMs: 1_000, clock: new VirtualClock() });
  const entered: number[] = [];
  const leave = await gate.enter("one");
  const others = [1, 2].map(async (number) => {
    const out = await gate.enter("one");
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
  assert.notEqual(await gate.enter("one"), null);
});

test("whoever waits too long is turned away, and is not let in later", async () => {
  const clock = new VirtualClock();
  const gate = new Turnstile({ atOnce: 1, waitMs: 1_000, clock });
  const leave = await gate.enter("one");
  const waiting = gate.enter("one");
  await clock.advance(1_000);
  assert.equal(await waiting, null);
  leave?.();
  assert.notEqual(await gate.enter("one"), null);
});

test("one key takes half of the places at most, and what it leaves is let in before those of it that wait longer", async () => {
  const gate = new Turnstile({ atOnce: 8, waitMs: null, clock: new VirtualClock() });
  const inside: string[] = [];
  const leaves: (() => void)[] = [];
  const come = (key: string): void => {
    void gate.enter(key).then((leave) => {
      inside.push(key);
      if (leave !== null) leaves.push(leave);
    });
  };
  for (let index = 0; index < 20; index++) come("greedy");
  for (const key of ["one", "two", "three"]) come(key);
  await new Promise(setImmediate);
  assert.deepEqual(inside, [...Array.from({ length: 4 }, () => "greedy"), "one", "two", "three"]);
  // Each that leaves makes room; all come in, the last ones of the greedy key too.
  while (leaves.length > 0) {
    leaves.shift()?.();
    await new Promise(setImmediate);
    assert.ok(leaves.length <= 8);
  }
  assert.equal(inside.length, 23);
});
