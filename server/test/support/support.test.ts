// What the tests' own tools promise: the order of cleaning up, and what a wait that fails says.
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { cleanLast } from "./clean-last.ts";
import { temporaryFolder } from "./folder.ts";
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
