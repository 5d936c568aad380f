// What the runner makes of runs that have waited for very long. The store, the leases and the proxy
// are stand-ins: days pass.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { RunWatcher } from "#proxy/run-call.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { outcomeOf, type Outcome } from "./outcome.ts";
import { Runner, type RunnerOptions } from "./runner.ts";
import type { RunWork } from "./run-store.ts";

/** A run waits for a replica no longer than 12 hours. */
const waitMsMax = 12 * 3_600_000;
const appId = "p-00000000-app" as AppId;
const runId = "00000000-0000-7000-8000-000000000000" as RunId;

type Ground = {
  readonly runner: Runner;
  readonly outcomes: Outcome[];
  nowMs: number;
  isStopped: boolean;
  looks: number;
};

/**
 * A runner with one run that is taken at each look, unless its app is stopped, and that finds the
 * app's line full.
 */
function openGround(acceptedAtMs: number, nowMs: number): Ground {
  const outcomes: Outcome[] = [];
  const clock: Clock = { ...systemClock, now: () => ground.nowMs };
  const work = {
    runId,
    epoch: 1,
    appId,
    attempt: 0,
    starts: 0,
    retriesMax: 0,
    waitsSinceMs: acceptedAtMs,
    body: Buffer.alloc(0),
  };
  const held = { runId, appId, projectId: "p-00000000", lines: "", target: "/run", method: "POST" };
  const options = {
    store: {
      appsWithWork: () => {
        ground.looks++;
        return Promise.resolve([{ appId, dueInMs: 0 }]);
      },
      bodyBytes: () => Promise.resolve(new Map()),
      read: () =>
        Promise.resolve([{ ...held, ...work, isCancelRequested: false, replicaId: null }]),
      reapQueued: () => Promise.resolve(0),
      cancelRequested: () => Promise.resolve([]),
    },
    leases: {
      claim: ({ limit }: { limit: number }) =>
        Promise.resolve(limit === 500 ? [] : [{ id: runId, epoch: 1 }]),
      renewAll: () => Promise.resolve(new Set([runId])),
    },
    execution: {
      keepsAnswers: () => false,
      answerMemory: { of: () => ({ grow: () => null, leave: () => undefined }) },
      proxy: {
        run: (_: unknown, watcher: RunWatcher) => {
          const fault = new Fault("line_full", "The app's line is full.");
          setImmediate(() => watcher.onEnd({ kind: "failed", fault, wasSent: false }));
          return { withdraw: () => undefined };
        },
      },
      settlement: {
        end: (
          of: RunWork,
          ending: Parameters<typeof outcomeOf>[0],
          how: { attempt: number; isCancelled: boolean },
        ) => {
          const at = { nowMs: ground.nowMs, random: 0 };
          outcomes.push(
            outcomeOf(ending, { ...how, retriesMax: 0, waitsSinceMs: of.waitsSinceMs }, at),
          );
          return Promise.resolve(true);
        },
      },
      clock,
      log: silentLog,
    },
    recovery: {},
    slotsMaxOf: () => 1,
    isStopped: () => ground.isStopped,
    runsMax: 10,
    lineLengthMax: 10,
    leaseMs: 60_000,
    clock,
    log: silentLog,
    onStep: () => undefined,
    onTakenOver: () => () => undefined,
    onLooked: () => Promise.resolve(),
  } as unknown as RunnerOptions;
  const ground: Ground = {
    outcomes,
    nowMs,
    isStopped: false,
    looks: 0,
    runner: undefined as unknown as Runner,
  };
  return Object.assign(ground, { runner: new Runner(options) });
}

const startMs = Date.UTC(2026, 10, 1);

test("the time in which a budget had stopped the app is none in which a run waited for a replica", async (t) => {
  const ground = openGround(startMs, startMs);
  ground.isStopped = true;
  t.after(() => ground.runner.stop());
  ground.nowMs = startMs + 20 * 86_400_000;
  ground.runner.start();
  await until("it was looked at while the app was stopped", () => {
    ground.runner.nudge(null);
    return ground.looks > 1;
  });
  ground.isStopped = false;
  ground.runner.nudge(null);
  const first = await until("it was taken", () => ground.outcomes[0]);
  assert.equal(first.kind, "again", "it is not ended for what it waited before");
  const seen = ground.outcomes.length;
  ground.nowMs += waitMsMax + 1;
  ground.runner.nudge(null);
  await until("it is ended in time", () =>
    ground.outcomes.slice(seen).some(({ kind }) => kind === "final"),
  );
});

test("nor is the time in which there was no platform", async (t) => {
  const ground = openGround(startMs - 10 * 86_400_000, startMs);
  t.after(() => ground.runner.stop());
  ground.runner.start();
  assert.equal((await until("it was taken", () => ground.outcomes[0])).kind, "again");
});

test("after a standstill the leases of what is in hand are extended before lost runs are looked for", async () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  let isAway = false;
  const answer = <Value>(what: string, value: Value): Promise<Value> => {
    if (isAway) return Promise.reject(new Error("the database does not answer"));
    seen.push(what);
    return Promise.resolve(value);
  };
  const runner = new Runner({
    store: {
      appsWithWork: () => Promise.resolve([]),
      reapQueued: () => answer("looked", 0),
      cancelRequested: () => Promise.resolve([]),
    },
    leases: {
      claim: () => Promise.resolve([]),
      renewAll: () => answer("extended", new Set([runId])),
    },
    execution: {
      keepsAnswers: () => false,
      answerMemory: { of: () => ({ grow: () => null, leave: () => undefined }) },
      proxy: { run: () => ({ withdraw: () => undefined }) },
    },
    slotsMaxOf: () => 1,
    isStopped: () => false,
    runsMax: 10,
    lineLengthMax: 10,
    leaseMs: 30_000,
    clock,
    log: silentLog,
    onLooked: () => Promise.resolve(),
  } as unknown as RunnerOptions);
  runner.start();
  const work = {
    runId,
    epoch: 1,
    appId,
    attempt: 0,
    starts: 0,
    retriesMax: 0,
    lines: "",
    body: Buffer.alloc(0),
  };
  assert.ok(runner.reserve(appId, 0));
  runner.take(work as unknown as RunWork);
  await clock.advance(20_000);
  isAway = true;
  await clock.advance(57_000);
  isAway = false;
  seen.length = 0;
  await clock.advance(5_000);
  assert.deepEqual(seen.slice(0, 2), ["extended", "looked"]);
  const stopped = runner.stop();
  await clock.advance(1_000);
  await stopped;
});

test("each check for lost runs is reported, also one that has found some", async () => {
  const clock = new VirtualClock();
  let reports = 0;
  const runner = new Runner({
    store: {
      appsWithWork: () => Promise.resolve([]),
      reapQueued: () => Promise.resolve(0),
      cancelRequested: () => Promise.resolve([]),
      // It has ended since the claim.
      read: () => Promise.resolve([]),
    },
    leases: { claim: () => Promise.resolve([{ id: runId, epoch: 1 }]) },
    runsMax: 10,
    lineLengthMax: 10,
    leaseMs: 30_000,
    clock,
    log: silentLog,
    onStep: () => undefined,
    onLooked: () => Promise.resolve(void reports++),
  } as unknown as RunnerOptions);
  runner.start();
  await clock.advance(1);
  assert.equal(reports, 1);
  const stopped = runner.stop();
  await clock.advance(1_000);
  await stopped;
});
