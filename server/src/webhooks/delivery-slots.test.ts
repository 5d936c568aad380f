// Places for deliveries: bounds, fairness between receivers and projects, and what failures do.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { DeliverySlots, type DeliverySlot, type Wish } from "./delivery-slots.ts";

function slotsOf(atOnce: number, bytesMax = 1000): { slots: DeliverySlots; clock: VirtualClock } {
  const clock = new VirtualClock();
  return { slots: new DeliverySlots({ atOnce, bytesMax, clock }), clock };
}

function wish(lane: string, ownerKey = "p-1"): Wish {
  return { lane, ownerKey };
}

function takeAll(slots: DeliverySlots, lane: string, project?: string): DeliverySlot[] {
  const taken: DeliverySlot[] = [];
  for (
    let slot = slots.take(wish(lane, project));
    slot !== null;
    slot = slots.take(wish(lane, project))
  ) {
    taken.push(slot);
  }
  return taken;
}

function succeed(slots: DeliverySlots, lane: string, times: number): void {
  for (let count = 0; count < times; count++) slots.noteEnd(lane, false);
}

test("one receiver gets no more than a quarter of all places, however well it does", () => {
  const { slots } = slotsOf(256);
  const first = takeAll(slots, "good");
  assert.equal(first.length, 16, "a receiver that is not known yet starts with fewer");
  for (const slot of first) slot.release();
  succeed(slots, "good", 1000);
  assert.equal(takeAll(slots, "good").length, 64);
});

test("greedy receivers leave places for those that have none", () => {
  const { slots } = slotsOf(64);
  for (let lane = 0; lane < 20; lane++) {
    succeed(slots, `greedy-${lane}`, 100);
    assert.ok(
      takeAll(slots, `greedy-${lane}`, `p-${lane}`).length >= 1,
      `receiver ${lane} found no place`,
    );
  }
  assert.ok(!slots.isFull);
  assert.ok(slots.take(wish("another", "p-another")) !== null);
});

test("one project leaves more than half of the places to others, however many receivers it has", () => {
  const { slots } = slotsOf(64);
  let taken = 0;
  for (let lane = 0; lane < 100; lane++) taken += takeAll(slots, `lane-${lane}`).length;
  assert.equal(taken, 24);
  assert.ok(takeAll(slots, "other", "p-2").length > 0);
});

test("a receiver that fails gets one at a time with growing pauses, and all again once it works", async () => {
  const { slots, clock } = slotsOf(256);
  for (let count = 0; count < 5; count++) slots.noteEnd("dead", true);
  assert.equal(takeAll(slots, "dead").length, 0, "it is closed for a moment");
  await clock.advance(1100);
  const [only, ...more] = takeAll(slots, "dead");
  assert.ok(only !== undefined && more.length === 0);
  only.release();
  for (let count = 0; count < 20; count++) slots.noteEnd("dead", true);
  const closedMs = slots.closedMs("dead");
  assert.ok(closedMs > 900 && closedMs <= 1000, `${closedMs} ms`);
  succeed(slots, "dead", 3);
  assert.equal(slots.closedMs("dead"), 0);
  assert.equal(takeAll(slots, "dead").length, 4);
});

test("what is released is free again, once", () => {
  const { slots } = slotsOf(10);
  const taken = [...takeAll(slots, "a"), ...takeAll(slots, "b", "p-2")];
  taken[0]?.hold(600);
  assert.equal(slots.bytesLeft, 400);
  assert.equal(slots.hasCapacity, false);
  for (const slot of [...taken, ...taken]) slot.release();
  assert.equal(slots.bytesLeft, 1000);
  assert.equal(takeAll(slots, "a").length + takeAll(slots, "b", "p-2").length, taken.length);
});

test("never more than the bound are taken, and with any free place a receiver that has none gets one", () => {
  const step = fc.record({
    lane: fc.integer({ min: 0, max: 20 }),
    project: fc.integer({ min: 0, max: 5 }),
    isTake: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.array(step, { maxLength: 200 }),
      (atOnce, steps) => {
        const { slots } = slotsOf(atOnce);
        const taken: DeliverySlot[] = [];
        for (const { lane, project, isTake } of steps) {
          const slot = isTake ? slots.take(wish(`${project} ${lane}`, `p-${project}`)) : null;
          if (slot !== null) taken.push(slot);
          else if (!isTake) taken.shift()?.release();
          assert.ok(taken.length <= atOnce);
          assert.equal(slots.isFull, taken.length === atOnce);
        }
        if (!slots.isFull) assert.ok(slots.take(wish("fresh", "p-fresh")) !== null);
      },
    ),
  );
});
