// Places for deliveries: bounds, fairness between receivers and projects, and what failures do.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { DeliverySlots, type DeliverySlot, type Wish } from "./delivery-slots.ts";

function placesOf(atOnce: number, bytesMax = 1000): { places: DeliverySlots; clock: VirtualClock } {
  const clock = new VirtualClock();
  return { places: new DeliverySlots({ atOnce, bytesMax, clock }), clock };
}

function wish(lane: string, ownerKey = "p-1"): Wish {
  return { lane, ownerKey };
}

function takeAll(places: DeliverySlots, lane: string, project?: string): DeliverySlot[] {
  const taken: DeliverySlot[] = [];
  for (
    let place = places.take(wish(lane, project));
    place !== null;
    place = places.take(wish(lane, project))
  ) {
    taken.push(place);
  }
  return taken;
}

function succeed(places: DeliverySlots, lane: string, times: number): void {
  for (let count = 0; count < times; count++) places.noteEnd(lane, false);
}

test("one receiver gets no more than a quarter of all places, however well it does", () => {
  const { places } = placesOf(256);
  const first = takeAll(places, "good");
  assert.equal(first.length, 16, "a receiver that is not known yet starts with fewer");
  for (const place of first) place.release();
  succeed(places, "good", 1000);
  assert.equal(takeAll(places, "good").length, 64);
});

test("greedy receivers leave places for those that have none", () => {
  const { places } = placesOf(64);
  for (let lane = 0; lane < 20; lane++) {
    succeed(places, `greedy-${lane}`, 100);
    assert.ok(
      takeAll(places, `greedy-${lane}`, `p-${lane}`).length >= 1,
      `receiver ${lane} found no place`,
    );
  }
  assert.ok(!places.isFull);
  assert.ok(places.take(wish("another", "p-another")) !== null);
});

test("one project leaves more than half of the places to others, however many receivers it has", () => {
  const { places } = placesOf(64);
  let taken = 0;
  for (let lane = 0; lane < 100; lane++) taken += takeAll(places, `lane-${lane}`).length;
  assert.equal(taken, 24);
  assert.ok(takeAll(places, "other", "p-2").length > 0);
});

test("a receiver that fails gets one at a time with growing pauses, and all again once it works", async () => {
  const { places, clock } = placesOf(256);
  for (let count = 0; count < 5; count++) places.noteEnd("dead", true);
  assert.equal(takeAll(places, "dead").length, 0, "it is closed for a moment");
  await clock.advance(1100);
  const [only, ...more] = takeAll(places, "dead");
  assert.ok(only !== undefined && more.length === 0);
  only.release();
  for (let count = 0; count < 20; count++) places.noteEnd("dead", true);
  const closedMs = places.closedMs("dead");
  assert.ok(closedMs > 900 && closedMs <= 1000, `${closedMs} ms`);
  succeed(places, "dead", 3);
  assert.equal(places.closedMs("dead"), 0);
  assert.equal(takeAll(places, "dead").length, 4);
});

test("what is released is free again, once", () => {
  const { places } = placesOf(10);
  const taken = [...takeAll(places, "a"), ...takeAll(places, "b", "p-2")];
  taken[0]?.hold(600);
  assert.equal(places.bytesLeft, 400);
  assert.equal(places.hasCapacity, false);
  for (const place of [...taken, ...taken]) place.release();
  assert.equal(places.bytesLeft, 1000);
  assert.equal(takeAll(places, "a").length + takeAll(places, "b", "p-2").length, taken.length);
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
        const { places } = placesOf(atOnce);
        const taken: DeliverySlot[] = [];
        for (const { lane, project, isTake } of steps) {
          const place = isTake ? places.take(wish(`${project} ${lane}`, `p-${project}`)) : null;
          if (place !== null) taken.push(place);
          else if (!isTake) taken.shift()?.release();
          assert.ok(taken.length <= atOnce);
          assert.equal(places.isFull, taken.length === atOnce);
        }
        if (!places.isFull) assert.ok(places.take(wish("fresh", "p-fresh")) !== null);
      },
    ),
  );
});
