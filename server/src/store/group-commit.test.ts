// Group commit: who is alone is written at once, who comes meanwhile is written together, and each learns its own fate.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Late } from "#lib/within.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { GroupCommit, GroupCommitFull } from "./group-commit.ts";

/** A write that ends when it is told to. */
function heldWrites(): { flush: (items: readonly number[]) => Promise<number[]>; batches: number[][]; next(): void } {
  const batches: number[][] = [];
  const waiting: (() => void)[] = [];
  return {
    batches,
    flush: (items) => {
      batches.push([...items]);
      return new Promise((resolve) => waiting.push(() => resolve(items.map((item) => item * 10))));
    },
    next: () => waiting.shift()?.(),
  };
}

const limits = { batchMax: 100, queueMax: 100 };

test("the first is written alone and at once, those that come meanwhile together", async () => {
  const writes = heldWrites();
  const group = new GroupCommit({ ...limits, flush: writes.flush });
  const results = [1, 2, 3].map((item) => group.add(item));
  assert.deepEqual(writes.batches, [[1]]);
  writes.next();
  assert.equal(await results[0], 10);
  await until("the next write begins", () => writes.batches.length === 2);
  assert.deepEqual(writes.batches, [[1], [2, 3]]);
  writes.next();
  assert.deepEqual(await Promise.all(results), [10, 20, 30]);
  await group.stop();
});

test("a group holds at most so many items and so much weight", async () => {
  const batches: number[][] = [];
  const flush = (items: readonly number[]): Promise<number[]> => {
    batches.push([...items]);
    return Promise.resolve([...items]);
  };
  const group = new GroupCommit({ ...limits, flush, batchMax: 3, weigh: (item: number) => item, batchWeightMax: 10 });
  await Promise.all([1, 1, 1, 1, 1, 9, 20, 2].map((item) => group.add(item)));
  assert.deepEqual(batches, [[1], [1, 1, 1], [1, 9], [20], [2]]);
});

test("what finds the queue full is refused, and there is room again later", async () => {
  const writes = heldWrites();
  const group = new GroupCommit({ ...limits, flush: writes.flush, queueMax: 1 });
  const first = group.add(1);
  const second = group.add(2);
  await assert.rejects(group.add(3), GroupCommitFull);
  writes.next();
  await first;
  await until("the second is written", () => writes.batches.length === 2);
  const fourth = group.add(4);
  writes.next();
  await second;
  await until("the fourth is written", () => writes.batches.length === 3);
  writes.next();
  assert.equal(await fourth, 40);
});

test("one that weighs more than all that may wait is taken when nothing else waits", async () => {
  const flush = (items: readonly number[]): Promise<number[]> => Promise.resolve([...items]);
  const group = new GroupCommit({ ...limits, flush, weigh: (item: number) => item, queueWeightMax: 5 });
  assert.equal(await group.add(50), 50);
});

test("a database that is away is told to all; an item that it does not take only to its own", async () => {
  const flush = (items: readonly string[]): Promise<string[]> => {
    if (items.includes("away")) return Promise.reject(Object.assign(new Error("away"), { code: "08006" }));
    if (items.includes("bad")) return Promise.reject(Object.assign(new Error("bad"), { code: "22021" }));
    return Promise.resolve([...items]);
  };
  const group = new GroupCommit({ ...limits, flush });
  const fates = async (items: string[]): Promise<string[]> =>
    (await Promise.allSettled(items.map((item) => group.add(item)))).map((fate) => fate.status);
  assert.deepEqual(await fates(["first", "good", "bad", "good"]), ["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  await group.stop();
  assert.deepEqual(await fates(["first", "good", "away"]), ["fulfilled", "rejected", "rejected"]);
});

test("a write that takes too long is refused with all that wait for it, and the next one is tried anew", async () => {
  const writes = heldWrites();
  const clock = new VirtualClock();
  const group = new GroupCommit({ ...limits, flush: writes.flush, deadline: { waitMs: 10_000, clock } });
  const refused = [1, 2, 3].map((item) => assert.rejects(group.add(item), Late));
  await clock.advance(10_000);
  await Promise.all(refused);
  assert.deepEqual(writes.batches, [[1]], "what was refused is not written later");
  const fourth = group.add(4);
  await until("the next write begins", () => writes.batches.length === 2);
  writes.next();
  writes.next();
  assert.equal(await fourth, 40);
  await group.stop();
});
