// The gate: how many are inside, of whom, who is next, who is turned away.
import assert from "node:assert/strict";
import { test } from "node:test";
import { settled, VirtualClock } from "#test/support/virtual-clock.ts";
import { Gate, type Leave } from "./gate.ts";

const max = 3;
const waitingMax = 100;

/** Enters the gate again and again, in order; each one leaves when it is told to. */
function crowd(gate: Gate, clock = new VirtualClock()) {
  const entered: string[] = [];
  const refused: string[] = [];
  const inside: { readonly key: string; readonly leave: Leave }[] = [];
  const come = async (...keys: readonly string[]): Promise<void> => {
    for (const key of keys) {
      void gate.enter({ key, deadline: { waitMs: 1_000, clock } }).then((leave) => {
        (leave === null ? refused : entered).push(key);
        if (leave !== null) inside.push({ key, leave });
      });
    }
    await settled();
  };
  const leave = async (): Promise<void> => {
    inside.shift()?.leave();
    await settled();
  };
  return { entered, refused, inside, come, leave, clock };
}

test("so many are inside at once, and a place that becomes free goes to whoever of the key waits longest", async () => {
  const gate = new Gate({ max: 1, waitingMax });
  const entered: number[] = [];
  const first = await gate.enter();
  const others = [1, 2].map(async (number) => {
    const leave = await gate.enter();
    entered.push(number);
    return leave;
  });
  await settled();
  assert.deepEqual(entered, []);
  first?.();
  first?.();
  (await others[0])?.();
  assert.deepEqual(entered, [1]);
  (await others[1])?.();
  assert.deepEqual(entered, [1, 2]);
  assert.notEqual(await gate.enter(), null);
});

test("of one key no more than its share are inside, and keys take turns", async () => {
  const { entered, come, leave } = crowd(new Gate({ max, keyMax: 2, waitingMax }));
  await come("a", "a", "a", "a", "a", "b", "b", "c");
  assert.deepEqual(entered, ["a", "a", "b"]);
  for (let count = 0; count < 5; count++) await leave();
  assert.deepEqual(entered.slice(3), ["a", "b", "c", "a", "a"]);
});

test("a key takes half of the places at most where it shall leave as many to others, and all come in", async () => {
  const { entered, inside, come, leave } = crowd(new Gate({ max: 8, keyMax: "half", waitingMax }));
  await come(...Array.from({ length: 20 }, () => "greedy"), "one", "two", "three");
  assert.deepEqual(entered, ["greedy", "greedy", "greedy", "greedy", "one", "two", "three"]);
  while (inside.length > 0) {
    await leave();
    assert.ok(inside.length <= 8);
  }
  assert.equal(entered.length, 23);
});

test("one that leaves may make room for two keys that left it free for others", async () => {
  const { entered, inside, come } = crowd(new Gate({ max, keyMax: "half", waitingMax }));
  await come("b", "a", "a", "b");
  assert.deepEqual(entered, ["b", "a"]);
  inside[1]?.leave();
  await settled();
  assert.deepEqual(entered, ["b", "a", "b", "a"]);
});

test("never more than the bounds are inside, whatever the order of those who come and leave", async () => {
  const { entered, refused, inside, come, leave } = crowd(new Gate({ max, keyMax: 1, waitingMax }));
  await come(...Array.from({ length: 12 }, (_, index) => `r${index % 4}`));
  while (inside.length > 0) {
    assert.ok(inside.length <= max);
    assert.equal(new Set(inside.map(({ key }) => key)).size, inside.length);
    await leave();
  }
  assert.deepEqual([entered.length, refused], [12, []]);
});

test("who waits too long is turned away, and takes nobody's place later", async () => {
  const gate = new Gate({ max, keyMax: 1, waitingMax });
  const { refused, inside, come, leave, clock } = crowd(gate);
  await come("a", "a", "b", "b");
  await clock.advance(1_000);
  assert.deepEqual([inside.length, refused], [2, ["a", "b"]]);
  await leave();
  await leave();
  assert.equal(gate.countOf("a"), 0);
  await come("a", "b", "c");
  assert.equal(inside.length, 3);
});

test("who came in is not turned away at the deadline of the wait", async () => {
  const { entered, refused, come, leave, clock } = crowd(new Gate({ max: 1, waitingMax: 1 }));
  await come("a", "b");
  await leave();
  await clock.advance(1_000);
  await come("c", "d");
  assert.deepEqual([entered, refused], [["a", "b"], ["d"]]);
});

test("who comes when so many wait is turned away at once: of one key, and of all", async () => {
  const { entered, refused, come, leave } = crowd(
    new Gate({ max: 1, waitingMax: 3, keyWaitingMax: 2 }),
  );
  await come("a", "a", "a", "a", "b");
  assert.deepEqual([entered, refused], [["a"], ["a"]]);
  await come("b", "c");
  assert.deepEqual(refused, ["a", "b", "c"]);
  await leave();
  await come("c");
  assert.deepEqual(refused, ["a", "b", "c"], "there is room again");
});

test("closing turns away all who wait", async () => {
  const gate = new Gate({ max, keyMax: 1, waitingMax });
  const { inside, refused, come } = crowd(gate);
  await come("a", "a", "b", "b", "c", "d");
  gate.close();
  await settled();
  assert.deepEqual([inside.length, refused], [3, ["a", "b", "d"]]);
});

test("work that fails gives its place back, and work without a place is not begun", async () => {
  const gate = new Gate({ max: 1, waitingMax: 0, refusal: () => new Error("too many") });
  await assert.rejects(
    gate.run(() => Promise.reject(new Error("failed"))),
    { message: "failed" },
  );
  const held = Promise.withResolvers<number>();
  const first = gate.run(() => held.promise);
  let isBegun = false;
  const second = gate.run(() => ((isBegun = true), Promise.resolve()));
  await assert.rejects(second, { message: "too many" });
  assert.equal(isBegun, false);
  held.resolve(7);
  assert.equal(await first, 7);
});
