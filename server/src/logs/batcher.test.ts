// The queue before a store: order, batches, the bound, writing again after the database was away.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Batcher, type BatcherOptions } from "./batcher.ts";

/** A clock on which waiting takes no time; what waited is in `waits`. */
function hurriedClock() {
  let nowMs = 0;
  const waits: number[] = [];
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => nowMs,
    isSettled: () => true,
    sleep(ms) {
      waits.push(ms);
      nowMs += ms;
      return Promise.resolve();
    },
  };
  return { clock, waits };
}

function make(options: Partial<BatcherOptions<number>>) {
  const written: number[][] = [];
  const batcher = new Batcher<number>({
    write: (items) => {
      written.push([...items]);
      return Promise.resolve();
    },
    weigh: () => 1,
    lingerMs: 0,
    batchMax: 100,
    queueMax: 1000,
    queueWeightMax: 1000,
    clock: systemClock,
    ...options,
  });
  return { batcher, written };
}

test("what comes during a write is written together, in order", async () => {
  const first = Promise.withResolvers<void>();
  const written: number[][] = [];
  const { batcher } = make({
    write: async (items) => {
      written.push([...items]);
      if (written.length === 1) await first.promise;
    },
  });
  const added = [batcher.add([1]), Promise.resolve().then(() => Promise.all([batcher.add([2, 3]), batcher.add([4])]))];
  await new Promise((resolve) => setImmediate(resolve));
  first.resolve();
  await Promise.all(added);
  assert.deepEqual(written, [[1], [2, 3, 4]]);
});

test("no write holds more than its bound, and nothing is lost between them", async () => {
  const { batcher, written } = make({ batchMax: 10 });
  await Promise.all([batcher.add(Array.from({ length: 25 }, (_, index) => index)), batcher.add([25, 26])]);
  assert.deepEqual(
    written.map(({ length }) => length),
    [10, 10, 5, 2],
  );
  assert.deepEqual(
    written.flat(),
    Array.from({ length: 27 }, (_, index) => index),
  );
});

test("a full batch, and a flush, end the lingering", async () => {
  const { batcher, written } = make({ lingerMs: 600_000, batchMax: 3 });
  await batcher.add([1, 2, 3]);
  const waiting = batcher.add([4]);
  await batcher.flush();
  await waiting;
  const filling = batcher.add([5]);
  await batcher.add([6, 7]);
  await filling;
  assert.deepEqual(written, [[1, 2, 3], [4], [5, 6, 7]]);
});

test("it is full at the bound of items and at the bound of weight, and has room after a write", async () => {
  for (const bound of [{ queueMax: 2 }, { queueWeightMax: 2 }]) {
    const { batcher } = make(bound);
    const adding = batcher.add([1, 2]);
    assert.equal(batcher.isFull, true);
    await batcher.waitForRoom();
    assert.equal(batcher.isFull, false);
    await adding;
  }
});

test("a write that fails because the database is away is tried again, each time after a longer wait", async () => {
  const { clock, waits } = hurriedClock();
  let tries = 0;
  const { batcher } = make({
    clock,
    write: () => (++tries < 4 ? Promise.reject(new Error("connection lost")) : Promise.resolve()),
  });
  await batcher.add([1]);
  assert.equal(tries, 4);
  assert.ok(waits.length === 3 && (waits[0] ?? 0) < (waits[2] ?? 0), `${waits}`);
});

test("items that cannot be stored are given up at once, those after them are stored", async () => {
  let tries = 0;
  const { batcher } = make({
    batchMax: 1,
    write: ([item]) => {
      tries++;
      return item === 1 ? Promise.reject(Object.assign(new Error("bad row"), { code: "23503" })) : Promise.resolve();
    },
  });
  const [bad, good] = await Promise.allSettled([batcher.add([1]), batcher.add([2])]);
  assert.deepEqual([bad.status, good.status, tries], ["rejected", "fulfilled", 2]);
});

test("a database that stays away ends the trying, and whoever waits is told", async () => {
  const { clock, waits } = hurriedClock();
  const { batcher } = make({ clock, write: () => Promise.reject(new Error("connection lost")) });
  await assert.rejects(batcher.add([1]), /connection lost/);
  const waited = waits.reduce((sum, ms) => sum + ms, 0);
  assert.ok(waited >= 30_000 && waited < 35_000, `${waited}`);
  await batcher.flush();
});
