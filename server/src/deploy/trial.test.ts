// What outcomes of a trial start mean for a build, with a clock that is moved by waiting for it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { resolveSettings } from "#apps/settings.ts";
import type { Clock } from "#lib/clock.ts";
import { appIdOf, newBuildId, newProjectId, newReleaseId } from "#lib/ids.ts";
import { runTrial, StartFailed, type TrialOutcome } from "./trial.ts";

const projectId = newProjectId();
const { settings } = resolveSettings({
  body: { name: "app", gitRepo: "acme/app", deploymentInitializationTimeout: 60 },
  configToml: null,
  providers: [],
});
const release = {
  releaseId: newReleaseId(),
  projectId,
  appId: appIdOf(projectId, "app"),
  buildId: newBuildId(),
  settings,
  artifact: { kind: "fake" },
};

/** Time passes by sleeping only. */
function movedClock(): Clock {
  let nowMs = 0;
  return {
    now: () => nowMs,
    monotonicMs: () => nowMs,
    isSettled: () => true,
    random: () => 0.5,
    sleep: (ms) => {
      nowMs += ms;
      return Promise.resolve();
    },
    after: () => () => undefined,
  };
}

function attempt(outcomes: TrialOutcome[]) {
  const waits: string[] = [];
  const deadlines: number[] = [];
  const result = runTrial({
    starter: {
      tryRelease: (_release, { deadlineMs }) => {
        deadlines.push(deadlineMs);
        const outcome = outcomes.length > 1 ? outcomes.shift() : outcomes[0];
        assert.ok(outcome);
        return Promise.resolve(outcome);
      },
    },
    release,
    signal: new AbortController().signal,
    clock: movedClock(),
    onLine: () => undefined,
    onWait: (reason) => {
      waits.push(reason);
      return Promise.resolve();
    },
  });
  return { result, waits, deadlines };
}

const noCapacity = (reason: string): TrialOutcome => ({ ok: false, kind: "no_capacity", reason });

test("room that appears while it is waited for is used, with the time that is left", async () => {
  const { result, waits, deadlines } = attempt([
    noCapacity("a"),
    noCapacity("a"),
    noCapacity("b"),
    { ok: true },
  ]);
  assert.equal(await result, 15_000);
  assert.deepEqual(waits, ["a", "b"]);
  assert.deepEqual(deadlines, [60_000, 55_000, 50_000, 45_000]);
});

test("room that never appears is init_timeout with that reason, within the time allowed", async () => {
  const { result, deadlines } = attempt([noCapacity("No machine here has HOPPER_H100.")]);
  await assert.rejects(result, (error: unknown) => {
    assert.ok(error instanceof StartFailed);
    assert.equal(error.end, "init_timeout");
    assert.match(
      error.message,
      /^No machine here has HOPPER_H100\. The build waited for 60 s \(deploymentInitializationTimeout\); build it again /,
    );
    return true;
  });
  assert.ok(deadlines.every((deadlineMs) => deadlineMs > 0));
});

test("what waiting cannot help with is init_failure at once, with that reason alone", async () => {
  const { result, waits, deadlines } = attempt([
    { ok: false, kind: "impossible", reason: "There are no GPUs here." },
  ]);
  await assert.rejects(result, {
    name: "StartFailed",
    end: "init_failure",
    message: "There are no GPUs here.",
  });
  assert.deepEqual([waits, deadlines], [[], [60_000]]);
});

test("a replica that ends is init_failure, one that is too slow init_timeout", async () => {
  for (const [kind, end] of [
    ["failed", "init_failure"],
    ["timeout", "init_timeout"],
  ] as const) {
    const { result } = attempt([{ ok: false, kind, reason: "Because" }]);
    await assert.rejects(
      result,
      (error: unknown) =>
        error instanceof StartFailed && error.end === end && error.message.startsWith("Because. "),
    );
  }
});
