// Durations and sizes in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { counted, durationText, sizeText, usedTimeText } from "./quantities.ts";

test("a duration has at most two units, and small ones a fraction", () => {
  assert.deepEqual(
    [0.4, 999, 999.6, 59_949, 59_960, 3_599_000, 3_600_000, 90_061_000].map(durationText),
    ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "25 h 1 min"],
  );
  assert.deepEqual([0, 90].map(usedTimeText), ["–", "1 min 30 s"]);
});

test("a size is in the unit that keeps it short", () => {
  assert.deepEqual([null, 0, 999, 1_000, 1_550_000, 2_345_000_000].map(sizeText), [
    "",
    "0 B",
    "999 B",
    "1.0 kB",
    "1.6 MB",
    "2.35 GB",
  ]);
});

test("only one of a kind has no plural", () => {
  assert.deepEqual(
    [counted(0, "core"), counted("1", "core"), counted(0.5, "core")],
    ["0 cores", "1 core", "0.5 cores"],
  );
});
