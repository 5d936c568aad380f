// Failed starts: when the next try comes, and when callers are told.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReleaseId } from "#lib/ids.ts";
import {
  isOver,
  recordFailure,
  shownFailure,
  startsAllowed,
  type Failure,
  type StartRecord,
} from "./start-record.ts";

const releaseId = "r1" as ReleaseId;
const middle = 0.5;

function failAt(
  record: StartRecord | undefined,
  atMs: number,
  changes: Partial<Failure> = {},
): StartRecord {
  const failure: Failure = {
    releaseId,
    beganAtMs: atMs - 1,
    atMs,
    reason: "It ended with exit code 1.",
    kind: "exited",
    isRefused: false,
    ...changes,
  };
  return recordFailure(record, failure, middle);
}

test("waits double from 1 s to 60 s", () => {
  let record: StartRecord | undefined;
  const waits: number[] = [];
  for (let index = 0; index < 8; index++) {
    record = failAt(record, index * 1_000_000);
    waits.push(record.retryAtMs - record.failedAtMs);
  }
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
});

test("starts that failed side by side count once", () => {
  const first = failAt(undefined, 100);
  assert.equal(failAt(first, 101, { beganAtMs: 50 }), first);
});

test("one failed start is tried again while calls wait; the second is shown until the next try", () => {
  const first = failAt(undefined, 0);
  assert.equal(shownFailure(first, 1), undefined);
  const second = failAt(first, 2000);
  const shown = "No replica of the app runs: It ended with exit code 1. The app's log says more.";
  assert.deepEqual(shownFailure(second, 2001), {
    kind: "start_failed",
    reason: shown,
    retryAtMs: 4000,
  });
  assert.equal(shownFailure(second, 4000), undefined);
});

test("a start that took all its time is shown at once", () => {
  assert.equal(shownFailure(failAt(undefined, 0, { kind: "timeout" }), 1)?.kind, "start_failed");
});

test("what the backend cannot take is tried again soon, never shown, and no failure of the release", () => {
  let record = failAt(undefined, 0, { kind: "external" });
  const waits: number[] = [];
  for (let index = 0; index < 6; index++) {
    waits.push(record.retryAtMs - record.failedAtMs);
    record = failAt(record, (index + 1) * 100_000, { kind: "external" });
  }
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, 10_000, 10_000]);
  assert.equal(shownFailure(record, record.failedAtMs), undefined);
  assert.equal(record.failures, 0);
});

test("the first crash of a ready replica does not delay its successor, the second does", () => {
  const first = failAt(undefined, 0, { kind: "crashed" });
  assert.equal(startsAllowed(first, { nowMs: 0, starting: 0, max: 5 }), 1);
  const second = failAt(first, 100, { kind: "crashed" });
  assert.equal(startsAllowed(second, { nowMs: 101, starting: 0, max: 5 }), 0);
});

test("a replica that calls ended is replaced within a second, is no failure of the release, and refuses no other call", () => {
  let record = failAt(undefined, 0, { kind: "by_call" });
  assert.equal(startsAllowed(record, { nowMs: 0, starting: 0, max: 5 }), 1);
  for (let atMs = 5_000; atMs < 100_000; atMs += 5_000) {
    record = failAt(record, atMs, { kind: "by_call" });
    assert.deepEqual([record.failures, record.retryAtMs - atMs], [0, 1000]);
    assert.equal(shownFailure(record, atMs), undefined);
  }
  const failing = failAt(failAt(undefined, 0), 2000);
  assert.equal(
    shownFailure(failAt(failing, 5000, { kind: "by_call" }), 5001),
    undefined,
    "it had started",
  );
  assert.equal(failAt(failAt(failing, 5000, { kind: "by_call" }), 8000).failures, 3);
});

test("after a failure replicas are tried one by one", () => {
  const record = failAt(undefined, 0);
  assert.equal(startsAllowed(undefined, { nowMs: 0, starting: 3, max: 5 }), 5);
  assert.equal(startsAllowed(record, { nowMs: 999, starting: 0, max: 5 }), 0);
  assert.equal(startsAllowed(record, { nowMs: 1000, starting: 0, max: 5 }), 1);
  assert.equal(startsAllowed(record, { nowMs: 1000, starting: 1, max: 5 }), 0);
});

test("a replica that became ready before the failure does not end the record, a later one does once it has settled", () => {
  const record = failAt(undefined, 50_000);
  const over = (readyAtMs: number[], nowMs: number): boolean =>
    isOver(record, { liveReleaseId: releaseId, readyAtMs, nowMs });
  assert.equal(over([1000], 60_000), false);
  assert.equal(over([51_000], 60_999), false);
  assert.equal(over([51_000], 61_000), true);
});

test("a new release begins without failures, and old failures are forgotten", () => {
  const record = failAt(failAt(undefined, 0), 2000);
  const other = "r2" as ReleaseId;
  assert.equal(failAt(record, 3000, { releaseId: other }).failures, 1);
  assert.equal(isOver(record, { liveReleaseId: other, readyAtMs: [], nowMs: 3000 }), true);
  assert.equal(isOver(record, { liveReleaseId: releaseId, readyAtMs: [], nowMs: 700_000 }), true);
});
