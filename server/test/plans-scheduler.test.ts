// Limits of a project and stops by budgets, as the scheduler keeps them: rows in a real database, a
// clock that the test moves.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openStage } from "./scheduler-stage.ts";
import "#test/support/leftovers.ts";

describe("the number of replicas of a project", () => {
  test("is never passed, by however many calls at once, and waiting calls are told why", async (t) => {
    const stage = await openStage(t);
    stage.allowance.replicasMax = 2;
    const { proxy, scheduler } = await stage.openProcess(t);
    const second = await stage.addApp("second");
    stage.promote(await stage.addRelease({ maxReplicaCount: 10, cooldownPeriodSeconds: 600 }));
    stage.promote(
      await stage.addRelease({ maxReplicaCount: 10, cooldownPeriodSeconds: 600 }, second),
    );
    for (let count = 0; count < 8; count++) {
      proxy.call(stage.appId, 2000);
      proxy.call(second, 2000);
    }
    await stage.reach("two replicas work", () => stage.driver.running().length === 2);
    await stage.clock.advance(1500);
    assert.equal(stage.driver.running().length, 2);
    const reasons = [stage.appId, second].map((appId) => scheduler.waitReason(appId) ?? "");
    assert.ok(
      reasons.some((reason) =>
        reason.startsWith('The plan "hobby" allows the project 2 replicas, which are in use'),
      ),
      reasons.join(" / "),
    );
    await stage.reach("all calls are served", () => proxy.outcomes.served === 16);
    let max = 0;
    const lives = (await stage.rows()).flatMap(({ created_at: from, draining_at: to }) => [
      { at: from.getTime(), by: 1 },
      { at: to?.getTime() ?? Number.POSITIVE_INFINITY, by: -1 },
    ]);
    let now = 0;
    for (const { by } of lives.toSorted((one, other) => one.at - other.at || one.by - other.by)) {
      now += by;
      max = Math.max(max, now);
    }
    assert.equal(max, 2);
  });

  test("leaves the place of an idle replica to calls of another app at once, and not that of a busy one", async (t) => {
    const stage = await openStage(t);
    stage.allowance.replicasMax = 1;
    const { proxy, view } = await stage.openProcess(t);
    const second = await stage.addApp("second");
    stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 3600 }));
    stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 3600 }, second));
    proxy.call(stage.appId, 5000);
    await stage.reach("the first app works", () => proxy.demandOf(stage.appId).running === 1);
    proxy.call(second, 50);
    await stage.clock.advance(3000);
    assert.deepEqual(
      [view.ready(second).length, proxy.outcomes.served],
      [0, 0],
      "the busy one is left alone",
    );
    const freeMs = stage.clock.monotonicMs();
    await stage.reach("both are served", () => proxy.outcomes.served === 2);
    // How far the clock is moved meanwhile is how long the database takes; the cooldown is far
    // longer.
    assert.ok(
      stage.clock.monotonicMs() - freeMs < 1_800_000,
      "the cooldown of the first app is not waited for",
    );
    assert.equal(proxy.outcomes.crashed, 0);
  });

  test("lowered below what runs, lets idle ones go and takes no more calls on the others, and no call is lost", async (t) => {
    const stage = await openStage(t);
    const { proxy, view } = await stage.openProcess(t);
    stage.promote(await stage.addRelease({ maxReplicaCount: 4, cooldownPeriodSeconds: 3600 }));
    for (let count = 0; count < 3; count++) proxy.call(stage.appId, 6000);
    proxy.call(stage.appId, 100);
    await stage.reach("four replicas are ready", () => view.ready(stage.appId).length === 4);
    await stage.reach("one is idle", () => proxy.outcomes.served === 1);
    stage.allowance.replicasMax = 1;
    stage.allowance.changed();
    await stage.reach("one takes calls", () => view.ready(stage.appId).length === 1);
    assert.equal(proxy.demandOf(stage.appId).running, 3, "those that run go on");
    await stage.reach("they end", () => stage.driver.running().length === 1);
    await stage.reach("and are served", () => proxy.outcomes.served === 4);
    assert.deepEqual(proxy.outcomes, { served: 4, refused: 0, crashed: 0 });
  });

  test("does not keep a release at the limit from being replaced by a newer one", async (t) => {
    const stage = await openStage(t);
    stage.allowance.replicasMax = 1;
    const { scheduler, view } = await stage.openProcess(t);
    stage.promote(await stage.addRelease({ minReplicaCount: 1 }));
    await stage.reach("the old release is ready", () => view.ready(stage.appId).length === 1);
    const next = await stage.addRelease({ minReplicaCount: 1 });
    const trial = scheduler.tryRelease(next, {
      signal: t.signal,
      deadlineMs: 60_000,
      onLine: () => undefined,
    });
    await stage.reach("the trial is ready", async () => (await stage.states())["ready"] === 2);
    assert.deepEqual(await trial, { ok: true });
    stage.promote(next);
    await stage.reach(
      "it takes calls",
      () => view.ready(stage.appId)[0]?.releaseId === next.releaseId,
    );
    await stage.reach("the old one is gone", () => stage.driver.running().length === 1);
    assert.equal(stage.driver.started.size, 2);
  });
});

test("replicas that are being drained may be as many again and no more, however often is deployed", async (t) => {
  const stage = await openStage(t);
  stage.allowance.replicasMax = 2;
  const { proxy } = await stage.openProcess(t);
  let max = 0;
  for (let release = 1; release <= 4; release++) {
    stage.promote(await stage.addRelease({ maxReplicaCount: 5 }));
    for (let count = 0; count < 2; count++) proxy.call(stage.appId, 30_000);
    await stage.reach(
      "they run as far as may be",
      () => stage.driver.running().length === Math.min(4, 2 * release),
    );
    let looks = 0;
    await stage.reach("time passes", () => {
      max = Math.max(max, stage.driver.running().length);
      return ++looks > 100;
    });
  }
  await stage.reach("all calls are served", () => {
    max = Math.max(max, stage.driver.running().length);
    return proxy.outcomes.served === 8;
  });
  assert.deepEqual([max, proxy.outcomes.crashed, proxy.outcomes.refused], [4, 0, 0]);
});

describe("the number of GPUs of a project", () => {
  test("bounds replicas with GPUs and no others", async (t) => {
    const stage = await openStage(t, ["CPU", "AMPERE_A10"]);
    stage.allowance.gpusMax = 5;
    const { proxy } = await stage.openProcess(t);
    const plain = await stage.addApp("plain");
    const gpus = { compute: ["AMPERE_A10"], gpuCount: 2, maxReplicaCount: 10 } as const;
    stage.promote(await stage.addRelease(gpus));
    stage.promote(await stage.addRelease({ maxReplicaCount: 3 }, plain));
    for (let count = 0; count < 6; count++) proxy.call(stage.appId, 2000);
    for (let count = 0; count < 3; count++) proxy.call(plain, 2000);
    await stage.reach("five replicas work", () => stage.driver.running().length === 5);
    await stage.clock.advance(1000);
    assert.deepEqual([proxy.demandOf(stage.appId).running, proxy.demandOf(plain).running], [2, 3]);
    await stage.reach("all are served", () => proxy.outcomes.served === 9);
  });

  test("below what one replica needs, ends its trial and refuses its calls with the reason", async (t) => {
    const stage = await openStage(t, ["CPU", "AMPERE_A10"]);
    stage.allowance.gpusMax = 0;
    const { proxy, scheduler, view } = await stage.openProcess(t);
    const release = await stage.addRelease({ compute: ["AMPERE_A10"], gpuCount: 1 });
    const options = { signal: t.signal, deadlineMs: 60_000, onLine: () => undefined };
    const outcome = await scheduler.tryRelease(release, options);
    assert.ok(!outcome.ok && outcome.kind === "impossible");
    assert.match(
      outcome.reason,
      /^The plan "hobby" allows no GPUs, and a replica of the app needs 1\. /,
    );
    stage.promote(release);
    proxy.call(stage.appId, 10);
    await stage.reach("the call is refused", () => proxy.outcomes.refused === 1);
    assert.equal(view.failure(stage.appId)?.kind, "no_capacity");
    assert.equal(stage.driver.started.size, 0);
  });
});

test("a stop refuses what waits, lets running calls end, ends all replicas and starts none until it is lifted", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ minReplicaCount: 1, maxReplicaCount: 2 }));
  for (let count = 0; count < 4; count++) proxy.call(stage.appId, 3000);
  await stage.reach("two work and two wait", () => proxy.demandOf(stage.appId).running === 2);
  stage.allowance.stops.set(stage.appId, "The budget is used up.");
  stage.allowance.changed();
  await stage.reach("what waits is refused", () => proxy.outcomes.refused === 2);
  assert.deepEqual(
    [view.ready(stage.appId).length, view.failure(stage.appId)?.kind],
    [0, "budget_reached"],
  );
  assert.equal(scheduler.waitReason(stage.appId), "The budget is used up.");
  assert.equal(proxy.demandOf(stage.appId).running, 2, "running calls go on");
  await stage.reach("no replica is left", () => stage.driver.running().length === 0);
  assert.deepEqual(proxy.outcomes, { served: 2, refused: 2, crashed: 0 });
  proxy.call(stage.appId, 10);
  await stage.clock.advance(5000);
  assert.deepEqual([stage.driver.started.size, proxy.outcomes.refused], [2, 3]);
  stage.allowance.stops.clear();
  stage.allowance.changed();
  await stage.reach("the app has its replica again", () => view.ready(stage.appId).length === 1);
  const reasons = (await stage.rows()).flatMap(({ reason }) => reason ?? []);
  assert.deepEqual(reasons, ["A budget is used up.", "A budget is used up."]);
});
