// The gate for calls out, on a clock that is moved.
import assert from "node:assert/strict";
import { test } from "node:test";
import { settled, VirtualClock } from "#test/support/virtual-clock.ts";
import { OutwardGate } from "./outward-gate.ts";

/** Twelve callers to four receivers; each leaves when it is told to. */
async function crowd(gate: OutwardGate) {
  const inside: { receiver: string; leave: () => void }[] = [];
  const refused: string[] = [];
  for (let index = 0; index < 12; index++) {
    const receiver = `r${index % 4}`;
    void gate.enter(receiver, 1_000).then((leave) => {
      if (leave === null) refused.push(receiver);
      else inside.push({ receiver, leave });
    });
  }
  await settled();
  return { inside, refused };
}

test("never more than the bounds are inside, and all come in", async () => {
  const clock = new VirtualClock();
  const gate = new OutwardGate(clock, { totalMax: 3, perReceiverMax: 1 });
  const { inside, refused } = await crowd(gate);
  let entered = 0;
  while (inside.length > 0) {
    assert.ok(inside.length <= 3);
    assert.equal(new Set(inside.map(({ receiver }) => receiver)).size, inside.length);
    entered++;
    inside.shift()?.leave();
    await settled();
  }
  assert.deepEqual([entered, refused], [12, []]);
});

test("who waits too long is turned away, and takes nobody's place", async () => {
  const clock = new VirtualClock();
  const gate = new OutwardGate(clock, { totalMax: 3, perReceiverMax: 1 });
  const { inside, refused } = await crowd(gate);
  await clock.advance(1_000);
  assert.deepEqual([inside.length, refused.length], [3, 9]);
  for (const { leave } of inside.splice(0)) leave();
  const again = await crowd(gate);
  assert.equal(again.inside.length, 3);
});

test("closing turns away all who wait", async () => {
  const clock = new VirtualClock();
  const gate = new OutwardGate(clock, { totalMax: 3, perReceiverMax: 1 });
  const { inside, refused } = await crowd(gate);
  gate.close();
  await settled();
  assert.deepEqual([inside.length, refused.length], [3, 9]);
});
