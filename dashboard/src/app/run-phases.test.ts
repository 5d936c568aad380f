// The division of a run's time, with what the API says of calls, cold starts and runs that wait.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { phasesOf, type TimedRun } from "./run-phases.ts";

const warm: TimedRun = {
  activatorQueueTimeMs: 0,
  containerQueueTimeMs: 0,
  executionTimeMs: 40,
  queueProxyWaitEndedAt: "2026-01-01T00:00:10.000Z",
  containerStartedAt: "2026-01-01T00:00:00.000Z",
};

const shown = (run: TimedRun) =>
  phasesOf(run).map(({ kind, beginsMs, lastsMs }) => `${kind} ${beginsMs}+${lastsMs}`);

describe("the phases of a run", () => {
  test("are only its running time where nothing was waited for", () => {
    assert.deepEqual(shown(warm), ["running 0+40"]);
  });

  test("follow each other, and tell the start of the replica that took it from the time before", () => {
    const cold = { ...warm, activatorQueueTimeMs: 100, containerQueueTimeMs: 12_000 };
    assert.deepEqual(shown(cold), [
      "waiting 0+100",
      "waiting 100+2000",
      "starting 2100+10000",
      "running 12100+40",
    ]);
  });

  test("have no start where the replica was there before, or is not known", () => {
    const queued = { ...warm, containerQueueTimeMs: 9_999 };
    assert.deepEqual(shown(queued), ["waiting 0+9999", "running 9999+40"]);
    const waiting = {
      ...queued,
      executionTimeMs: 0,
      queueProxyWaitEndedAt: null,
      containerStartedAt: null,
    };
    assert.deepEqual(shown(waiting), ["waiting 0+9999", "running 9999+0"]);
  });

  test("bear clocks that disagree", () => {
    assert.deepEqual(
      shown({ ...warm, containerQueueTimeMs: 5, containerStartedAt: "2026-01-01T00:00:11.000Z" }),
      ["waiting 0+5", "running 5+40"],
    );
  });
});
