// When a scheduled backup is due, and which ones go.
import assert from "node:assert/strict";
import { test } from "node:test";
import { planBackups } from "./backup-schedule.ts";

const nowMs = Date.parse("2026-03-10T12:00:00Z");
const plan = (names: readonly string[], kept = 2) =>
  planBackups(names, { nowMs, everyHours: 24, kept });

test("a backup is due when there is none, or the newest is old enough", () => {
  assert.equal(plan([]).isDue, true);
  assert.equal(plan(["slipway-2026-03-09T12-00-00Z.age"]).isDue, true);
  assert.equal(plan(["slipway-2026-03-09T12-00-01Z.age"]).isDue, false);
  assert.equal(plan(["slipway-2026-03-09T12-00-01Z.age"]).lastMs, nowMs - 86_399_000);
});

test("backups of a time to come neither keep the next from being made nor have it removed", () => {
  const ahead = ["slipway-2027-01-01T00-00-00Z.age", "slipway-2027-01-02T00-00-00Z.age"];
  assert.equal(plan(ahead).isDue, true);
  assert.deepEqual(plan([...ahead, "slipway-2026-03-10T12-00-00Z.age"]).spare, []);
});

test("only the oldest of the schedule go, and what killed ones have left", () => {
  const names = [
    "slipway-2026-03-03T00-00-00Z.age",
    "slipway-2026-03-01T00-00-00Z.age",
    "slipway-2026-03-02T00-00-00Z.age",
    "slipway-2026-03-04T00-00-00Z.age.unfinished-17",
    "slipway-2026-03-05T00-00-00Z.age.unfinished-upload-aB.c_d-e",
    "monday.age",
    "slipway-mine.age",
    "slipway-mine.age.unfinished-18",
    "slipway-mine.age.unfinished-upload-19",
  ];
  assert.deepEqual(plan(names).spare, [
    "slipway-2026-03-01T00-00-00Z.age",
    "slipway-2026-03-04T00-00-00Z.age.unfinished-17",
    "slipway-2026-03-05T00-00-00Z.age.unfinished-upload-aB.c_d-e",
  ]);
  assert.deepEqual(plan(names.slice(0, 2)).spare, []);
});
