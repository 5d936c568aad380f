// Which endpoints have their turn when.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { EndpointId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { EndpointBacklog } from "./endpoint-backlog.ts";

const wish = { lane: "p-1 https://a.example", ownerKey: "p-1" };

function waitingOf(): { waiting: EndpointBacklog; clock: VirtualClock; nudges: () => number } {
  const clock = new VirtualClock();
  let nudges = 0;
  const waiting = new EndpointBacklog({ clock, onDue: () => nudges++ });
  return { waiting, clock, nudges: () => nudges };
}

function dueOf(waiting: EndpointBacklog): EndpointId[] {
  return [...waiting.due()].map(([id]) => id);
}

test("an endpoint has its turn when its earliest delivery is due, and not before", async () => {
  const { waiting, clock, nudges } = waitingOf();
  const id = randomUUID() as EndpointId;
  waiting.add(id, wish, 5000);
  waiting.add(id, wish, 1000);
  await clock.advance(999);
  assert.deepEqual([dueOf(waiting), nudges()], [[], 0]);
  await clock.advance(1);
  assert.deepEqual([dueOf(waiting), nudges()], [[id], 1]);
});

test("who had a turn and has more comes after all others", () => {
  const { waiting } = waitingOf();
  const a = randomUUID() as EndpointId;
  const b = randomUUID() as EndpointId;
  waiting.add(a, wish, 0);
  waiting.add(b, wish, 0);
  waiting.begin(a);
  waiting.end(a, true);
  assert.deepEqual(dueOf(waiting), [b, a]);
  waiting.begin(b);
  waiting.end(b, false);
  assert.deepEqual(dueOf(waiting), [a]);
});

test("what is added during a turn is not forgotten with it", () => {
  const { waiting } = waitingOf();
  const id = randomUUID() as EndpointId;
  waiting.add(id, wish, 0);
  waiting.begin(id);
  waiting.add(id, wish, 0);
  waiting.end(id, false);
  assert.deepEqual(dueOf(waiting), [id]);
});

test("a retry that is due later is kept although the endpoint has its turn now", async () => {
  const { waiting, clock } = waitingOf();
  const id = randomUUID() as EndpointId;
  waiting.add(id, wish, 0);
  waiting.add(id, wish, 3000);
  waiting.begin(id);
  waiting.end(id, false);
  assert.deepEqual(dueOf(waiting), []);
  await clock.advance(3000);
  assert.deepEqual(dueOf(waiting), [id]);
});

test("a delivery that is due now does not make one forgotten that was noted for later", async () => {
  const { waiting, clock } = waitingOf();
  const id = randomUUID() as EndpointId;
  waiting.add(id, wish, 3000);
  waiting.add(id, wish, 0);
  waiting.begin(id);
  waiting.end(id, false);
  assert.deepEqual(dueOf(waiting), []);
  await clock.advance(3000);
  assert.deepEqual(dueOf(waiting), [id]);
});

test("an endpoint that is deferred comes back, and after closing nothing runs any more", async () => {
  const { waiting, clock, nudges } = waitingOf();
  const id = randomUUID() as EndpointId;
  waiting.add(id, wish, 0);
  waiting.defer(id, 200);
  assert.deepEqual(dueOf(waiting), []);
  await clock.advance(200);
  assert.deepEqual(dueOf(waiting), [id]);
  waiting.defer(id, 200);
  waiting.close();
  await clock.advance(1000);
  assert.equal(nudges(), 1);
});
