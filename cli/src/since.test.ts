// Times and spans as people read them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesText } from "./sizes.ts";
import { sinceText, spanText } from "./since.ts";

const nowMs = Date.parse("2026-06-30T12:00:00Z");
const since = (ms: number): string => sinceText(new Date(nowMs - ms).toISOString(), nowMs);

test("a time is said in its largest unit, and as a day when it is long ago", () => {
  assert.deepEqual([0, 999, 1000, 59_999, 60_000, 7_199_999, 86_400_000, -7_200_000].map(since), [
    "now",
    "now",
    "1 s ago",
    "59 s ago",
    "1 min ago",
    "1 h ago",
    "1 d ago",
    "in 2 h",
  ]);
  assert.equal(since(31 * 86_400_000), "2026-05-30");
  assert.equal(sinceText("never", nowMs), "never");
});

test("spans and sizes have one unit or two", () => {
  assert.deepEqual([0.4, 250, 3200, 125_000, 3_660_000].map(spanText), [
    "0 ms",
    "250 ms",
    "3.2 s",
    "2 min 5 s",
    "1 h 1 min",
  ]);
  assert.deepEqual([0, 999, 1500, 2_000_000, 3e15].map(bytesText), [
    "0 B",
    "999 B",
    "1.5 kB",
    "2.0 MB",
    "3000.0 TB",
  ]);
});
