// From how many replicas there should be to what to start and what to end.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { ReplicaId } from "#lib/ids.ts";
import { plan, planExchange, planLeaving, type PlannedReplica } from "./plan.ts";

const nowMs = 100_000;
const cooldownMs = 10_000;

function replica(name: string, changes: Partial<PlannedReplica> = {}): PlannedReplica {
  return {
    replicaId: name as ReplicaId,
    state: "ready",
    isOutdated: false,
    isRouted: true,
    running: 0,
    readyAtMs: 0,
    ...changes,
  };
}

const starting = { state: "starting", readyAtMs: null } as const;

function planned(replicas: readonly PlannedReplica[], desired: number, startsMax = 100) {
  const { starts, drains } = plan({ replicas, desired, startsMax, cooldownMs, nowMs });
  return { starts, drains: drains.map((drain) => drain.replicaId as string) };
}

test("what is missing is started, starting replicas counted", () => {
  assert.deepEqual(planned([replica("a"), replica("b", starting)], 5), { starts: 3, drains: [] });
  assert.deepEqual(planned([], 5, 2), { starts: 2, drains: [] });
});

test("the idlest goes first, and of those the youngest", () => {
  const replicas = [
    replica("busy", { running: 2, readyAtMs: 3 }),
    replica("old", { readyAtMs: 1 }),
    replica("young", { readyAtMs: 2 }),
  ];
  assert.deepEqual(planned(replicas, 2).drains, ["young"]);
  assert.deepEqual(planned(replicas, 1).drains, ["young", "old"]);
});

test("one whose ready check fails goes before an idle one", () => {
  const replicas = [
    replica("idle", { readyAtMs: 9 }),
    replica("unrouted", { isRouted: false, running: 1 }),
  ];
  assert.deepEqual(planned(replicas, 1).drains, ["unrouted"]);
});

test("a starting replica is never a victim, nor does it push a ready one out before it is ready itself", () => {
  assert.deepEqual(planned([replica("a"), replica("b", starting)], 1), { starts: 0, drains: [] });
  assert.deepEqual(planned([replica("b", starting)], 0), { starts: 0, drains: [] });
});

test("a replica that has just become ready is kept for a cooldown", () => {
  assert.deepEqual(planned([replica("a", { readyAtMs: nowMs - cooldownMs + 1 })], 0).drains, []);
  assert.deepEqual(planned([replica("a", { readyAtMs: nowMs - cooldownMs })], 0).drains, ["a"]);
});

test("of a release that leaves those that serve least go first, and as many stay as still serve", () => {
  const replicas = [
    replica("busy", { running: 3 }),
    replica("idle"),
    replica("unrouted", { isRouted: false }),
  ];
  const left = (keep: number): string[] =>
    planLeaving(replicas, keep).map((drain) => drain.replicaId as string);
  assert.deepEqual(left(2), ["unrouted"]);
  assert.deepEqual(left(0), ["unrouted", "idle", "busy"]);
  assert.deepEqual(left(5), []);
});

const outdated = { isOutdated: true } as const;

test("after a restart a new replica starts beside each old one, which is ended when the new one is ready", () => {
  assert.deepEqual(planned([replica("old", outdated)], 1), { starts: 1, drains: [] });
  assert.deepEqual(planned([replica("old", outdated), replica("new", starting)], 1), {
    starts: 0,
    drains: [],
  });
  assert.deepEqual(planned([replica("old", outdated), replica("new")], 1), {
    starts: 0,
    drains: ["old"],
  });
});

test("a restart replaces a quarter at a time, those that serve least first", () => {
  const old = Array.from({ length: 8 }, (_, index) =>
    replica(`old-${index}`, { ...outdated, running: 8 - index }),
  );
  assert.deepEqual(planned(old, 8), { starts: 2, drains: [] });
  assert.deepEqual(planned([...old, replica("new", starting)], 8), { starts: 1, drains: [] });
  assert.deepEqual(planned([...old, replica("new"), replica("next", starting)], 8), {
    starts: 1,
    drains: ["old-7"],
  });
  const failing = [
    replica("unrouted", { ...outdated, isRouted: false }),
    replica("serving", outdated),
    replica("new"),
  ];
  assert.deepEqual(planned(failing, 2).drains, ["unrouted"]);
});

test("a new replica that takes no calls yet replaces none, and no further one starts beside it", () => {
  const unrouted = replica("unrouted", { isRouted: false });
  const old = [replica("a", outdated), replica("b", outdated)];
  assert.deepEqual(planned([...old, replica("new"), replica("next"), unrouted], 4), {
    starts: 0,
    drains: [],
  });
  assert.deepEqual(planned([...old, replica("new"), replica("next"), replica("last")], 4), {
    starts: 1,
    drains: ["a"],
  });
});

test("outdated replicas that nobody needs are ended without a replacement, and a need beyond them is met at once", () => {
  assert.deepEqual(planned([replica("a", outdated), replica("b", outdated)], 0), {
    starts: 0,
    drains: ["a", "b"],
  });
  assert.deepEqual(planned([replica("a", outdated)], 5), { starts: 4, drains: [] });
});

test("where there is no room for another replica, an old one gives its place away, one at a time", () => {
  const old = [replica("busy", { ...outdated, running: 2 }), replica("idle", outdated)];
  assert.deepEqual(
    planExchange(old)?.drains.map((drain) => drain.replicaId as string),
    ["idle"],
  );
  assert.equal(planExchange([...old, replica("new", starting)]), null);
  assert.equal(planExchange([replica("new")]), null);
});

test("a release never gets beyond what is desired, nor below it by draining", () => {
  const any = fc.record({
    state: fc.constantFrom("starting" as const, "ready" as const),
    isOutdated: fc.boolean(),
    isRouted: fc.boolean(),
    running: fc.nat(3),
    readyAgoMs: fc.nat(30_000),
  });
  fc.assert(
    fc.property(
      fc.array(any, { maxLength: 20 }),
      fc.nat(12),
      fc.nat(5),
      (drawn, desired, startsMax) => {
        const replicas = drawn.map(({ readyAgoMs, ...rest }, index) =>
          replica(`r${index}`, {
            ...rest,
            readyAtMs: rest.state === "ready" ? nowMs - readyAgoMs : null,
          }),
        );
        const { starts, drains } = planned(replicas, desired, startsMax);
        const drained = replicas.filter((one) => drains.includes(one.replicaId));
        const current = replicas.filter((one) => !one.isOutdated);
        const isRestart = current.length < replicas.length;
        assert.ok(
          starts <= startsMax && starts + current.length <= Math.max(desired, current.length),
        );
        const surge = isRestart ? Math.max(1, desired / 4) : 0;
        assert.ok(
          starts + replicas.length - drained.length <= Math.max(desired + surge, replicas.length),
        );
        assert.ok(drained.length === 0 || starts === 0 || isRestart);
        const left = replicas.filter((one) => !drains.includes(one.replicaId));
        assert.ok(drained.length === 0 || left.length >= desired);
        const drainedCurrent = current.filter((one) => drains.includes(one.replicaId));
        const readyLeft = left.filter((one) => one.state === "ready" && !one.isOutdated).length;
        assert.ok(drainedCurrent.length === 0 || readyLeft >= desired);
        assert.equal(new Set(drains).size, drains.length);
      },
    ),
  );
});
