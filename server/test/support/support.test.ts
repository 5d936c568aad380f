// The guarantees of the test support code: the order of cleanup, and the message of a failed wait.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { cleanLast } from "./clean-last.ts";
import { drawSome } from "./drawn-cases.ts";
import { foldersOfTheDead, makeFolder, temporaryFolder } from "./folder.ts";
import { until } from "./until.ts";

test("what was asked for first is cleaned up last, after everything that the test closes itself", async (t) => {
  const order: string[] = [];
  await t.test("a test", (inner) => {
    cleanLast(inner, () => void order.push("asked for first"));
    cleanLast(inner, () => void order.push("asked for second"));
    inner.after(() => void order.push("closed by the test, first"));
    inner.after(() => void order.push("closed by the test, second"));
  });
  assert.deepEqual(order, [
    "closed by the test, first",
    "closed by the test, second",
    "asked for second",
    "asked for first",
  ]);
});

test("a temporary folder is gone after its test, also when it holds what its owner may not enter", async (t) => {
  let folder = "";
  await t.test("a test", (inner) => {
    folder = temporaryFolder(inner);
    mkdirSync(join(folder, "work"));
    mkdirSync(join(folder, "work/closed"), { mode: 0 });
  });
  assert.equal(existsSync(folder), false);
});

test("a wait that fails names what it waited for and why it was not there yet", async () => {
  const waiting = until(
    "the moon is blue",
    () => {
      throw new Error("it is white");
    },
    { deadlineMs: 5 },
  );
  await assert.rejects(waiting, (error: Error) => {
    assert.match(error.message, /the moon is blue/);
    return error.cause instanceof Error && error.cause.message === "it is white";
  });
});

test("a folder that a process has left is known by its name, and one whose process lives is not", (t) => {
  const place = temporaryFolder(t);
  const own = makeFolder("own", place);
  const { pid } = spawnSync("true");
  const left = join(place, `slipway-test-${pid}-database-x`);
  mkdirSync(left);
  mkdirSync(join(place, "of-another-program"));
  assert.deepEqual(foldersOfTheDead(place), [left]);
  assert.ok(existsSync(own));
});

test("a draw is the same for a seed, has each kind, keeps the order, and tries everything over many seeds", () => {
  const all = Array.from({ length: 20 }, (_, index) => index);
  const kindOf = (one: number): string => (one === 7 ? "rare" : "frequent");
  const tried = new Set<number>();
  for (let seed = 1; seed <= 200; seed++) {
    const drawn = drawSome(all, { seed, max: 3, kindOf });
    assert.deepEqual(drawSome(all, { seed, max: 3, kindOf }), drawn);
    assert.equal(drawn.length, 3);
    assert.ok(drawn.includes(7));
    assert.deepEqual(
      drawn.toSorted((one, other) => one - other),
      drawn,
    );
    for (const one of drawn) tried.add(one);
  }
  assert.equal(tried.size, all.length);
  assert.equal(
    drawSome(all, { seed: 1, max: 2, kindOf: String }).length,
    20,
    "each is of its own kind",
  );
});
