// Times as their distance from now, or as dates.
import assert from "node:assert/strict";
import { test } from "node:test";
import { timeText } from "./time-text.ts";

const nowMs = Date.parse("2026-06-15T12:00:00Z");
const ago = (seconds: number): string =>
  timeText(new Date(nowMs - seconds * 1000).toISOString(), nowMs);

test("a time of the last day is shown as how long ago it was", () => {
  assert.deepEqual([0, 4, 5, 59, 60, 3_599, 3_600, 86_399].map(ago), [
    "now",
    "now",
    "5 s ago",
    "59 s ago",
    "1 min ago",
    "59 min ago",
    "1 h ago",
    "23 h ago",
  ]);
});

test("an older time and one to come are dates, far away with the year", () => {
  for (const seconds of [86_400, 90 * 86_400, -60]) assert.doesNotMatch(ago(seconds), /ago|2026/);
  for (const seconds of [181 * 86_400, -181 * 86_400]) assert.match(ago(seconds), /2025|2026/);
});
