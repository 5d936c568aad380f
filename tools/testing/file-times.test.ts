// The times of test files: they name files that are there, and are written as they are read.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { projectDir } from "#tidy/tree.ts";
import { fileSeconds, minutesOf, secondsOf, slowFirst, writeTimes } from "./file-times.ts";

test("each file whose time is kept exists", () => {
  const gone = Object.keys(fileSeconds).filter((file) => !existsSync(join(projectDir, file)));
  assert.deepEqual(gone, []);
});

test("the slowest files come first, and a file without a time takes a second", () => {
  const [slowest = "", second = ""] = Object.keys(fileSeconds);
  assert.deepEqual(slowFirst(["a.test.ts", second, slowest]), [slowest, second, "a.test.ts"]);
  assert.equal(secondsOf("a.test.ts"), 1);
  assert.equal(
    minutesOf(
      Array.from({ length: 121 }, () => "a.test.ts"),
      1,
    ),
    3,
  );
});

test("times are written in seconds, the slowest first, without short ones", (t) => {
  const path = join(temporaryFolder(t, "times"), "times.json");
  const times = new Map([
    ["b.test.ts", 4_400],
    ["c.test.ts", 1_000],
    ["a.test.ts", 61_000],
  ]);
  writeTimes(path, times);
  assert.equal(readFileSync(path, "utf8"), '{\n  "a.test.ts": 61,\n  "b.test.ts": 4\n}\n');
});
