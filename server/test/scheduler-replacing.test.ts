// A restart that somebody asked for: every replica is replaced while others serve, also beyond a
// restart of the platform, and not by one that does not start.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exitsEarly, goodStart, openStage, type Stage } from "./scheduler-stage.ts";

/** Replicas that have not stopped, as their rows have it. */
async function alive(stage: Stage): Promise<{ state: string; restarts: number }[]> {
  const rows = await stage.rows();
  return rows
    .filter((row) => row.stopped_at === null)
    .map(({ state, restarts }) => ({ state, restarts }));
}

async function isReplaced(stage: Stage, count: number, restarts: number): Promise<boolean> {
  const found = await alive(stage);
  return (
    found.length === count &&
    found.every((one) => one.state === "ready" && one.restarts === restarts)
  );
}

test("a restart starts a new replica before the old one ends, and its calls end as they would have", async (t) => {
  const stage = await openStage(t);
  const { proxy, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ minReplicaCount: 1 }));
  await stage.reach("it runs", () => view.ready(stage.appId).length === 1);
  const [old] = view.ready(stage.appId);
  proxy.call(stage.appId, 5_000);
  stage.restart();
  let seen = view.ready(stage.appId).length;
  await stage.reach("another takes its place", () => {
    seen = Math.min(seen, view.ready(stage.appId).length);
    return (
      view.ready(stage.appId).length === 1 &&
      view.ready(stage.appId)[0]?.replicaId !== old?.replicaId
    );
  });
  assert.equal(seen, 1, "there was always one that takes calls");
  await stage.reach("the call is served", () => proxy.outcomes.served === 1);
  await stage.reach("the old one is gone", () => isReplaced(stage, 1, 1));
  assert.deepEqual(proxy.outcomes, { served: 1, refused: 0, crashed: 0 });
  assert.equal(stage.driver.started.size, 2);
});

test("with many replicas a restart goes on in steps and never leaves fewer that serve", async (t) => {
  const stage = await openStage(t);
  const { view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ minReplicaCount: 8, maxReplicaCount: 8 }));
  await stage.reach("all run", () => view.ready(stage.appId).length === 8);
  stage.restart();
  let min = 8;
  let max = 8;
  await stage.reach("all are replaced", async () => {
    const now = view.ready(stage.appId).length;
    min = Math.min(min, now);
    max = Math.max(max, stage.driver.running().length);
    return await isReplaced(stage, 8, 1);
  });
  assert.equal(min, 8);
  assert.ok(max <= 12, `${max} ran at once`);
  assert.equal(stage.driver.started.size, 16);
});

test("a replica that does not start leaves the old one serving, and is tried again", async (t) => {
  const stage = await openStage(t);
  const { proxy, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ minReplicaCount: 1 }));
  await stage.reach("it runs", () => view.ready(stage.appId).length === 1);
  stage.scripts = [exitsEarly(goodStart), exitsEarly(goodStart), goodStart];
  stage.restart();
  await stage.reach("two starts failed", () => stage.driver.started.size === 3);
  assert.equal(view.ready(stage.appId).length, 1);
  proxy.call(stage.appId, 10);
  await stage.reach("the old one serves", () => proxy.outcomes.served === 1);
  await stage.reach("the third start takes over", () => isReplaced(stage, 1, 1));
});

test("a live release that does not start says so, though replicas of the one before serve", async (t) => {
  const stage = await openStage(t);
  const { scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ minReplicaCount: 1 }));
  await stage.reach("it runs", () => view.ready(stage.appId).length === 1);
  stage.scripts = [exitsEarly(goodStart), exitsEarly(goodStart), goodStart];
  stage.promote(await stage.addRelease({ minReplicaCount: 1 }));
  await stage.reach("it says why", () =>
    /could not be started/.test(scheduler.waitReason(stage.appId) ?? ""),
  );
  const [old] = view.ready(stage.appId);
  assert.ok(old !== undefined, "the one before serves");
  const isNew = (): boolean =>
    view.ready(stage.appId).every(({ releaseId }) => releaseId !== old.releaseId);
  await stage.reach(
    "the third start takes over",
    () => view.ready(stage.appId).length > 0 && isNew(),
  );
  assert.equal(scheduler.waitReason(stage.appId), undefined);
});

test("a restart that was under way when the platform ended goes on after its next start", async (t) => {
  const stage = await openStage(t);
  const first = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ minReplicaCount: 2, maxReplicaCount: 2 }));
  await stage.reach("both run", () => first.view.ready(stage.appId).length === 2);
  await stage.closeProcess(first.scheduler);
  stage.restart();
  const second = await stage.openProcess(t);
  assert.equal(second.view.ready(stage.appId).length, 2, "taken over as they were");
  await stage.reach("both are replaced", () => isReplaced(stage, 2, 1));
});

test("at the limit of the project the old replica gives its place away", async (t) => {
  const stage = await openStage(t);
  const { view } = await stage.openProcess(t);
  stage.allowance.replicasMax = 1;
  stage.promote(await stage.addRelease({ minReplicaCount: 1 }));
  await stage.reach("it runs", () => view.ready(stage.appId).length === 1);
  stage.restart();
  await stage.reach("it is replaced", () => isReplaced(stage, 1, 1));
  assert.equal(stage.driver.started.size, 2);
});

test("an app without replicas has none to restart", async (t) => {
  const stage = await openStage(t);
  const { proxy } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  stage.restart();
  await stage.clock.advance(10_000);
  assert.equal(stage.driver.started.size, 0);
  proxy.call(stage.appId, 10);
  await stage.reach("the first call is served", () => proxy.outcomes.served === 1);
  assert.equal(stage.driver.started.size, 1);
});

test("a replica that ignores SIGTERM is killed seconds after its last call, not after the grace period", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, isStubborn: true }];
  const { proxy, view } = await stage.openProcess(t);
  const graceSeconds = 900;
  stage.promote(
    await stage.addRelease({
      minReplicaCount: 2,
      maxReplicaCount: 2,
      responseGracePeriodSeconds: graceSeconds,
    }),
  );
  await stage.reach("they run", () => view.ready(stage.appId).length === 2);
  proxy.call(stage.appId, 100_000);
  stage.withdraw();
  await stage.clock.advance(31_000);
  await stage.reach("the idle one is gone", () => stage.driver.running().length === 1);
  await stage.reach("the call is served", () => proxy.outcomes.served === 1);
  await stage.clock.advance(31_000);
  await stage.reach("the other one is gone", () => stage.driver.running().length === 0);
  assert.deepEqual(proxy.outcomes, { served: 1, refused: 0, crashed: 0 });
  const [first] = await stage.rows();
  const drainedMs = (first?.stopped_at?.getTime() ?? 0) - (first?.draining_at?.getTime() ?? 0);
  assert.ok(drainedMs < graceSeconds * 1_000, `it took ${drainedMs} ms`);
});
