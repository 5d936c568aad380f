// Which ends of replicas are failed starts, and whose.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import type { AppState, AppStates, SchedulerRoute } from "./app-state.ts";
import { Counters } from "./counters.ts";
import { newHistory } from "./decide.ts";
import { FailedStarts, failureKind } from "./failed-starts.ts";
import { Replica } from "./replica.ts";
import { firstRoute } from "#test/support/first-route.ts";

const appId = "p-0123abcd-app" as AppId;
const projectId = "p-0123abcd" as ProjectId;
const end = { reason: "It ended with exit code 1.", exitCode: 1, at: 0 };
const settings = settingsWith({});

function releaseOf(name: string) {
  return { releaseId: name as ReleaseId, buildId: name as BuildId, settings };
}

function startOf(name: string): Replica {
  return new Replica({
    replicaId: `app-${name}` as ReplicaId,
    release: { projectId, appId, ...releaseOf(name) },
    gpus: 0,
    beganAtMs: 0,
    createdAtMs: 0,
    seenAtMs: 0,
    restarts: 0,
    isTrial: false,
  });
}

function opened() {
  const empty: AppState = {
    history: newHistory(0, 0),
    starts: undefined,
    rollOutStarts: undefined,
    heldBack: undefined,
  };
  const states: AppStates = new Map([[appId, empty]]);
  const counters = new Counters();
  const again: number[] = [];
  const route: SchedulerRoute = {
    ...firstRoute,
    appId,
    projectId,
    live: releaseOf("live"),
    rollOut: { release: releaseOf("next"), share: 10 },
  };
  const failedStarts = new FailedStarts({
    states,
    routes: { byAppId: () => route, all: () => [route], onChange: () => () => undefined },
    counters,
    clock: new VirtualClock(),
    again: (_appId, afterMs) => again.push(afterMs),
  });
  return { failedStarts, states, counters, again };
}

const early = { stateBefore: "starting", hadCalls: false } as const;

test("a failed start counts for its own release, live or rolled out, and has the app looked at", () => {
  const { failedStarts, states, again, counters } = opened();
  failedStarts.onEnd(startOf("live"), end, early);
  failedStarts.onEnd(startOf("next"), end, early);
  assert.equal(states.get(appId)?.starts?.releaseId, "live");
  assert.equal(states.get(appId)?.rollOutStarts?.releaseId, "next");
  assert.equal(counters.startFailures, 2);
  assert.equal(again.length, 2);
});

test("the failed start of a release that takes no calls holds nobody back", () => {
  const { failedStarts, states, again } = opened();
  failedStarts.onEnd(startOf("replaced"), end, early);
  assert.equal(states.get(appId)?.starts, undefined);
  assert.deepEqual(again, []);
});

test("an exit is no failed start when the platform wanted it, or once the replica has settled", () => {
  const nowMs = 100_000;
  const kindOf = (
    changes: Partial<Pick<Replica, "endOrder" | "readyAtMs">>,
    hadCalls = false,
  ): unknown =>
    failureKind(
      { endOrder: null, readyAtMs: nowMs - 9999, ...changes },
      {},
      { stateBefore: "ready", hadCalls, nowMs },
    );
  assert.equal(kindOf({}), "crashed");
  assert.equal(kindOf({}, true), "by_call");
  assert.equal(kindOf({ readyAtMs: nowMs - 10_000 }), undefined);
  assert.equal(kindOf({ endOrder: { kind: "wanted", reason: "" } }), undefined);
  assert.equal(kindOf({ endOrder: { kind: "timeout", reason: "" } }), "timeout");
});
