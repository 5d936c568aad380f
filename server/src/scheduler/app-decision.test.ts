// What one turn of an app decides: who ends, how many replicas each release should have, what calls
// see, and what is kept for the next turn.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { decideApp, type AppDecision, type AppReading } from "./app-decision.ts";
import type { SchedulerRoute, ServedRelease } from "./app-state.ts";
import { newHistory } from "./decide.ts";
import { noDemand } from "./demand.ts";
import { Replica } from "./replica.ts";
import type { ComputeChoice } from "./replica-spec.ts";
import type { StartRecord } from "./start-record.ts";
import { firstRoute } from "#test/support/first-route.ts";

const appId = "p-0123abcd-app" as AppId;
const projectId = "p-0123abcd" as ProjectId;
const nowMs = 1_000_000;

const canStart: ComputeChoice = {
  ok: true,
  compute: "CPU",
  request: {
    compute: "CPU",
    gpuCount: 0,
    cpuCores: 1,
    memoryGb: 1,
    provider: null,
    region: null,
    tier: "protected",
  },
};

function releaseOf(name: string, changes: Partial<AppSettings> = {}): ServedRelease {
  const settings = settingsWith({ minReplicaCount: 0, maxReplicaCount: 10, ...changes });
  return { releaseId: name as ReleaseId, buildId: name as BuildId, settings };
}

const old = releaseOf("old");
const live = releaseOf("live");
const next = releaseOf("next");

function routeOf(changes: Partial<SchedulerRoute> = {}): SchedulerRoute {
  return { ...firstRoute, appId, projectId, live, ...changes };
}

let replicas = 0;

function starting(release: ServedRelease, isTrial = false): Replica {
  return new Replica({
    replicaId: `app-${++replicas}` as ReplicaId,
    release: { projectId, appId, ...release },
    gpus: 0,
    beganAtMs: nowMs - 500_000,
    createdAtMs: 0,
    seenAtMs: 0,
    restarts: 0,
    isTrial,
  });
}

function ready(release: ServedRelease, isTrial = false): Replica {
  const replica = starting(release, isTrial);
  replica.becomeReady({ host: "127.0.0.1", port: 1 }, nowMs - 400_000);
  return replica;
}

function readingOf(changes: Partial<AppReading> = {}): AppReading {
  return {
    route: routeOf(),
    stop: undefined,
    replicas: [],
    load: noDemand,
    state: undefined,
    choiceOf: () => canStart,
    useOf: () => null,
    nowMs,
    ...changes,
  };
}

const busy = { ...noDemand, running: 4, lastActiveAtMs: nowMs };

function endingIn({ ends }: AppDecision): Replica[] {
  return ends.map(({ replica }) => replica);
}

/** The number of replicas that each release should have. */
function wantedIn({ served }: AppDecision): Record<string, number> {
  return Object.fromEntries(served.map(({ release, wanted }) => [release.releaseId, wanted]));
}

function failedStart(releaseId: ReleaseId): StartRecord {
  return {
    releaseId,
    failures: 2,
    failedAtMs: nowMs - 1000,
    retryAtMs: nowMs + 1000,
    reason: "It ended with exit code 1.",
    isShown: true,
    isRefused: false,
  };
}

test("all replicas of a deleted app end, and its calls are told until nobody waits", () => {
  const replica = ready(live);
  const gone = readingOf({ route: undefined, replicas: [replica] });
  const first = decideApp(gone);
  assert.deepEqual(first.ends, [{ replica, reason: "The app was deleted." }]);
  assert.equal(first.failure?.kind, "deleted");
  const waiting = { ...noDemand, waiting: 1 };
  const second = decideApp({ ...gone, replicas: [], load: waiting });
  assert.equal(second.failure?.kind, "deleted");
  assert.equal(decideApp({ ...gone, replicas: [] }).failure, undefined);
});

test("a stop ends what serves, starts nothing, and leaves the trial of a build alone", () => {
  const trial = starting(next, true);
  trial.heldUntilMs = nowMs + 1;
  const serving = ready(live);
  const stop = { code: "app_stopped", reason: "Somebody stopped it." } as const;
  const decision = decideApp(readingOf({ stop, replicas: [trial, serving], load: busy }));
  assert.deepEqual(endingIn(decision), [serving]);
  assert.deepEqual(decision.served, []);
  assert.deepEqual(decision.failure, {
    kind: "app_stopped",
    reason: "Somebody stopped it.",
    retryAtMs: null,
  });
});

test("an app that nobody calls has nothing kept; one whose starts fail has", () => {
  assert.equal(decideApp(readingOf()).state, undefined);
  const idle = {
    history: newHistory(0, nowMs - 1000),
    starts: undefined,
    rollOutStarts: undefined,
  };
  const state = { ...idle, heldBack: undefined };
  assert.equal(decideApp(readingOf({ state })).state, undefined);
  const starts = failedStart(live.releaseId);
  const failing = decideApp(readingOf({ state: { ...state, starts } }));
  assert.equal(failing.state?.starts, starts);
  assert.equal(failing.failure?.kind, "start_failed");
});

test("a release that is rolled out gets its share as far as its replicas can carry it", () => {
  const rollOut = { release: next, share: 50 };
  const alone = decideApp(
    readingOf({
      route: routeOf({ rollOut }),
      replicas: [ready(live), ready(live), ready(live), ready(live)],
      load: busy,
    }),
  );
  assert.deepEqual(wantedIn(alone), { live: 4, next: 2 });
  assert.deepEqual(
    alone.served.map(({ weight }) => weight),
    [1, 0],
  );
  const both = decideApp(
    readingOf({
      route: routeOf({ rollOut }),
      replicas: [ready(live), ready(live), ready(next), ready(next)],
      load: busy,
    }),
  );
  assert.deepEqual(
    both.served.map(({ weight }) => weight),
    [0.5, 0.5],
  );
});

test("the failed starts of one release hold no start of the other back", () => {
  const rollOut = { release: next, share: 50 };
  const starts = failedStart(live.releaseId);
  const state = {
    history: newHistory(0, nowMs),
    starts,
    rollOutStarts: undefined,
    heldBack: undefined,
  };
  const { served } = decideApp(readingOf({ route: routeOf({ rollOut }), state, load: busy }));
  assert.deepEqual(
    served.map((one) => one.starts),
    [starts, undefined],
  );
});

test("the failed starts of a release that is rolled out stay with it when it becomes live", () => {
  const rollOutStarts = failedStart(next.releaseId);
  const state = {
    history: newHistory(0, nowMs),
    starts: undefined,
    rollOutStarts,
    heldBack: undefined,
  };
  const decision = decideApp(readingOf({ route: routeOf({ live: next }), state, load: busy }));
  assert.equal(decision.state?.starts, rollOutStarts);
  assert.equal(decision.state.rollOutStarts, undefined);
});

test("of a replaced release only what serves stays, and not for longer than its successor may take", () => {
  const serving = ready(old);
  const late = ready(old);
  const keptMs = live.settings.deploymentInitializationTimeout * 1000 + 60_000;
  late.leavingSinceMs = nowMs - keptMs;
  const unready = starting(old);
  const decision = decideApp(readingOf({ replicas: [serving, late, unready], load: busy }));
  assert.deepEqual(decision.leaving.replicas, [serving]);
  assert.deepEqual(endingIn(decision), [late, unready]);
});

test("a release that was taken back serves no longer, and one that was only tried never does", () => {
  const refused = ready(old);
  const tried = ready(next, true);
  const decision = decideApp(
    readingOf({ route: routeOf({ refusedReleaseId: old.releaseId }), replicas: [refused, tried] }),
  );
  assert.deepEqual(decision.leaving.replicas, []);
  assert.deepEqual(endingIn(decision), [refused, tried]);
});

test("calls wait for a backend that does not answer, but not for longer than ten seconds", () => {
  const failureAfter = (ms: number): AppDecision["failure"] =>
    decideApp(
      readingOf({
        choiceOf: () => ({ ok: false, why: "outage", reason: "It is down.", sinceMs: nowMs - ms }),
      }),
    ).failure;
  assert.equal(failureAfter(9999), undefined);
  assert.deepEqual(failureAfter(10_000), {
    kind: "outage",
    reason: "It is down.",
    retryAtMs: nowMs + 10_000,
  });
});

test("deciding changes nothing: the same reading leads to the same decision", () => {
  const all = [ready(live), ready(old), starting(old), ready(next, true)];
  const marks = (): unknown =>
    all.map(({ state, heldUntilMs, leavingSinceMs, isTrial }) => ({
      state,
      heldUntilMs,
      leavingSinceMs,
      isTrial,
    }));
  const before = marks();
  const reading = readingOf({ replicas: all, load: busy });
  const decision = decideApp(reading);
  assert.deepEqual(marks(), before);
  assert.deepEqual(decideApp(reading), decision);
});
