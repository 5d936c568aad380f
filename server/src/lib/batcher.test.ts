// The batcher: who is alone is written at once, who comes meanwhile is written together, within
// bounds, and each learns its own fate; also while the database is away.
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "#test/support/until.ts";
import { settled, VirtualClock } from "#test/support/virtual-clock.ts";
import { Batcher, BatcherFull, type BatcherOptions } from "./batcher.ts";
import { DeadlineExceeded } from "./with-deadline.ts";

type Options = Partial<BatcherOptions<number, number>>;

/**
 * Writes at once unless `options` say otherwise; the result of a number is ten times the number.
 */
function make(options: Options = {}) {
  const clock = new VirtualClock();
  const written: number[][] = [];
  const write = (items: readonly number[]): Promise<number[]> => {
    written.push([...items]);
    return Promise.resolve(items.map((item) => item * 10));
  };
  const limits = { batchMax: 100, queueMax: 100 };
  const batcher = new Batcher<number, number>({ ...limits, write, clock, ...options });
  return { batcher, written, clock };
}

/** As `make`, but a write ends when it is told to. */
function makeHeld(options: Options = {}) {
  const batches: number[][] = [];
  const waiting: (() => void)[] = [];
  const write = (items: readonly number[]): Promise<number[]> => {
    batches.push([...items]);
    return new Promise((resolve) => waiting.push(() => resolve(items.map((item) => item * 10))));
  };
  return { ...make({ ...options, write }), batches, next: () => waiting.shift()?.() };
}

const away = (): Error => Object.assign(new Error("connection lost"), { code: "08006" });
const badRow = (): Error => Object.assign(new Error("bad row"), { code: "22021" });
const fates = async (promises: readonly Promise<unknown>[]): Promise<string> =>
  (await Promise.allSettled(promises))
    .map(({ status }) => (status === "fulfilled" ? "+" : "-"))
    .join("");

test("the first is written alone and before anything else happens, those that come meanwhile together", async () => {
  const { batcher, batches, next } = makeHeld();
  const results = [1, 2, 3].map((item) => batcher.add(item));
  assert.deepEqual(batches, [[1]]);
  next();
  assert.equal(await results[0], 10);
  await until("the next write begins", () => batches.length === 2);
  assert.deepEqual(batches, [[1], [2, 3]]);
  next();
  assert.deepEqual(await Promise.all(results), [10, 20, 30]);
  await batcher.stop();
});

test("a write holds at most so many items and so much weight", async () => {
  const { batcher, written } = make({ batchMax: 3, weigh: (item) => item, batchWeightMax: 10 });
  await Promise.all([1, 1, 1, 1, 1, 9, 20, 2].map((item) => batcher.add(item)));
  assert.deepEqual(written, [[1], [1, 1, 1], [1, 9], [20], [2]]);
});

test("many that are added at once keep their order and the bounds of a write, and nothing is lost between them", async () => {
  const { batcher, written } = make({ batchMax: 10 });
  const many = Array.from({ length: 25 }, (_, index) => index);
  const results = await Promise.all([
    batcher.addAll(many),
    batcher.addAll([25, 26]),
    batcher.add(27),
  ]);
  assert.equal(results[2], 270);
  assert.deepEqual(
    written.map(({ length }) => length),
    [10, 10, 8],
  );
  assert.deepEqual(written.flat(), [...many, 25, 26, 27]);
});

test("what finds the queue full is refused, and there is room again later", async () => {
  const { batcher, batches, next } = makeHeld({ queueMax: 1 });
  const first = batcher.add(1);
  const second = batcher.add(2);
  assert.equal(batcher.isFull, true);
  await assert.rejects(batcher.add(3), BatcherFull);
  await assert.rejects(batcher.addAll([3]), BatcherFull);
  let isTaken = false;
  const waiting = [4, 5].map((item) => batcher.addWhenNotFull([item]).then(() => (isTaken = true)));
  await settled();
  for (let count = 0; count < 4; count++) {
    await until("the next is written", () => batches.length === count + 1);
    assert.equal(isTaken, count > 2);
    next();
    await settled();
  }
  await Promise.all([first, second, ...waiting]);
  assert.deepEqual(batches, [[1], [2], [4], [5]]);
});

test("one that weighs more than all that may wait is taken when nothing else waits", async () => {
  const { batcher } = makeHeld({ weigh: (item) => item, queueWeightMax: 5 });
  void batcher.add(1);
  void batcher.add(50);
  assert.equal(batcher.isFull, true);
  await assert.rejects(batcher.add(1), BatcherFull);
});

test("lingering gathers what comes, and ends at its time, with a full batch, and with a flush", async () => {
  const { batcher, written, clock } = make({ lingerMs: 200, batchMax: 3 });
  for (const item of [1, 2]) void batcher.add(item);
  await clock.advance(199);
  assert.deepEqual(written, []);
  await clock.advance(1);
  for (const item of [3, 4, 5]) void batcher.add(item);
  await settled();
  assert.equal(written.length, 2);
  void batcher.add(6);
  await batcher.flush();
  void batcher.add(7);
  await settled();
  assert.deepEqual(written, [[1, 2], [3, 4, 5], [6]], "after a flush it lingers again");
});

test("a database that is away is told to all of a write; an item that it does not take only to its own", async () => {
  const failing = new Map([
    [1, away],
    [2, badRow],
  ]);
  const { batcher } = make({
    write: (items) => {
      const failure = items.map((item) => failing.get(item)).find((one) => one !== undefined);
      return failure === undefined ? Promise.resolve([...items]) : Promise.reject(failure());
    },
  });
  assert.equal(await fates([7, 8, 2, 9].map((item) => batcher.add(item))), "++-+");
  await batcher.flush();
  assert.equal(await fates([7, 8, 1].map((item) => batcher.add(item))), "+--");
});

test("a write that fails is tried again for a while, each time after a longer wait, and in its place", async () => {
  const triedAt: number[] = [];
  const failures: string[] = [];
  const { batcher, clock } = make({
    retryForMs: 30_000,
    write: (items) => {
      triedAt.push(clock.monotonicMs());
      return triedAt.length < 4 ? Promise.reject(away()) : Promise.resolve([...items]);
    },
    onFailure: (error, items) => failures.push(`${String(error)} ${items.length}`),
  });
  const added = [batcher.add(1), batcher.add(2)];
  await clock.advance(29_000);
  assert.deepEqual(await Promise.all(added), [1, 2]);
  assert.deepEqual(triedAt, [0, 50, 150, 350, 350]);
  assert.deepEqual(
    failures,
    Array.from({ length: 3 }, () => "Error: connection lost 1"),
  );
});

test("a database that stays away ends the trying, and those that wait are tried next", async () => {
  let isAway = true;
  const { batcher, clock } = make({
    retryForMs: 30_000,
    write: (items) => (isAway ? Promise.reject(away()) : Promise.resolve([...items])),
  });
  const first = batcher.add(1);
  const second = batcher.add(2);
  const refused = assert.rejects(first, /connection lost/);
  await clock.advance(29_000);
  assert.equal(batcher.isFull, false);
  await clock.advance(3_000);
  await refused;
  isAway = false;
  await clock.advance(3_000);
  assert.equal(await second, 2);
});

test("what cannot be stored is not tried again", async () => {
  let tries = 0;
  const { batcher } = make({
    retryForMs: 30_000,
    write: () => (tries++, Promise.reject(badRow())),
  });
  await assert.rejects(batcher.add(1), /bad row/);
  assert.equal(tries, 1);
});

test("a stop waits for no repeats: what fails once more is given up, with all that wait for it", async () => {
  let tries = 0;
  const { batcher, clock } = make({
    retryForMs: 30_000,
    write: () => (tries++, Promise.reject(away())),
  });
  const all = fates([1, 2, 3].map((item) => batcher.add(item)));
  await clock.advance(10);
  assert.equal(tries, 1);
  await batcher.stop();
  assert.deepEqual([await all, tries], ["---", 2]);
});

test("a flush waits for repeats, and for what came meanwhile", async () => {
  let isAway = true;
  const { batcher, clock } = make({
    retryForMs: 30_000,
    lingerMs: 600_000,
    write: (items) => (isAway ? Promise.reject(away()) : Promise.resolve([...items])),
  });
  const added = [batcher.add(1)];
  const flushed = batcher.flush();
  await clock.advance(10);
  added.push(batcher.add(2));
  isAway = false;
  await clock.advance(1_000);
  await flushed;
  assert.deepEqual(await Promise.all(added), [1, 2]);
});

test("a write that takes too long is refused with all that wait for it, and the next one is tried anew", async () => {
  const { batcher, batches, clock, next } = makeHeld({ writeWaitMs: 10_000 });
  const refused = [1, 2, 3].map((item) => assert.rejects(batcher.add(item), DeadlineExceeded));
  await clock.advance(10_000);
  await Promise.all(refused);
  assert.deepEqual(batches, [[1]], "what was refused is not written later");
  const fourth = batcher.add(4);
  await until("the next write begins", () => batches.length === 2);
  next();
  next();
  assert.equal(await fourth, 40);
  await batcher.stop();
});

test("it is told when nothing waits any more", async () => {
  let idle = 0;
  const { batcher, next } = makeHeld({ onIdle: () => void idle++ });
  const added = [batcher.add(1), batcher.add(2)];
  next();
  await settled();
  assert.equal(idle, 0);
  next();
  await Promise.all(added);
  await batcher.stop();
  assert.equal(idle, 1);
});

test("with keys, those that wait take turns, and a full queue has room for the first of each", async () => {
  const keyOf = (item: number): string => `${Math.floor(item / 100)}`;
  const options = { keyOf, turnMax: 2, batchMax: 4, queueMax: 6 };
  const { batcher, batches, next } = makeHeld(options);
  const all = [[100], [101, 102, 103, 104, 105, 106]].map((items) => batcher.addWhenNotFull(items));
  assert.equal(batcher.isFull, true);
  all.push(...[[107], [201, 202, 203], [301]].map((items) => batcher.addWhenNotFull(items)));
  for (const written of [[100], [101, 102, 201, 202], [301, 103, 104, 203], [105, 106, 107]]) {
    await until("the next write begins", () => batches.length > 0);
    assert.deepEqual(batches.shift(), written);
    next();
  }
  await Promise.all(all);
});
