// Turns of costly questions: how many at once, of whom, and who is next.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import { Turns } from "./turns.ts";

/** Resolves once all that is due has begun. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Work that ends when it is told. */
function stage(turns: Turns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (key: string, name: string): Promise<void> =>
    turns.run(key, () => {
      begun.push(name);
      return new Promise((resolve) => ends.set(name, resolve));
    });
  const end = async (name: string, done: Promise<void>): Promise<void> => {
    ends.get(name)?.();
    await done;
    await settled();
  };
  return { begun, run, end };
}

test("so many run at once, of one key no more than its part, and the next of whom it is the turn follows", async () => {
  const { begun, run, end } = stage(new Turns({ most: 3, mostOfKey: 2, waitingMost: 10, what: "logs" }));
  const [one, two] = [run("a", "a1"), run("a", "a2")];
  void run("a", "a3");
  void run("a", "a4");
  void run("b", "b1");
  void run("b", "b2");
  await settled();
  assert.deepEqual(begun, ["a1", "a2", "b1"]);
  await end("a1", one);
  assert.deepEqual(begun.slice(3), ["a3"]);
  await end("a2", two);
  assert.deepEqual(begun.slice(4), ["b2"]);
});

test("work that fails gives its turn back", async () => {
  const turns = new Turns({ most: 1, mostOfKey: 1, waitingMost: 1, what: "logs" });
  await assert.rejects(
    turns.run("a", () => Promise.reject(new Error("failed"))),
    { message: "failed" },
  );
  assert.equal(await turns.run("a", () => Promise.resolve(7)), 7);
});

test("too many that wait are refused, of that key only", async () => {
  const turns = new Turns({ most: 2, mostOfKey: 1, waitingMost: 1, what: "logs" });
  const { begun, run, end } = stage(turns);
  const first = run("a", "a1");
  void run("a", "a2");
  await assert.rejects(run("a", "a3"), (error) => error instanceof Fault && error.code === "rate_limited");
  void run("b", "b1");
  await settled();
  assert.deepEqual(begun, ["a1", "b1"]);
  await end("a1", first);
  assert.deepEqual(begun, ["a1", "b1", "a2"]);
});
