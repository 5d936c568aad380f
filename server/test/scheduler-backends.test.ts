// The scheduler on backends that have no room at the moment: machines that come later, types that
// are in use.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goodStart, openStage } from "./scheduler-stage.ts";

test("a replica that waits for a machine is not paid for, has its time from when it runs, and is taken over waiting", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, pendingMs: 120_000, readyMs: 5_000 }];
  const first = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ deploymentInitializationTimeout: 10 }));
  first.proxy.call(stage.appId, 10);
  await stage.reach("it was accepted", () => stage.driver.running().length === 1);
  await stage.clock.advance(60_000);
  assert.equal(
    first.scheduler.waitReason(stage.appId),
    "A replica is waiting for a machine with enough capacity.",
  );
  assert.equal((await stage.rows())[0]?.started_at, null);
  await stage.closeProcess(first.scheduler);
  const second = await stage.openProcess(t);
  second.proxy.call(stage.appId, 10);
  await stage.clock.advance(60_000);
  await stage.reach("it runs", async () => (await stage.rows())[0]?.started_at !== null);
  await stage.reach("the call is served", () => second.proxy.outcomes.served === 1);
  const rows = await stage.rows();
  assert.equal(rows.length, 1);
  const waitedMs = (rows[0]?.started_at?.getTime() ?? 0) - (rows[0]?.created_at.getTime() ?? 0);
  assert.ok(waitedMs >= 120_000, "it waited for its machine");
});

test("a replica for which no machine comes is given up on", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, pendingMs: null }, goodStart];
  const { proxy } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  proxy.call(stage.appId, 10);
  await stage.reach("it was accepted", () => stage.driver.running().length === 1);
  await stage.clock.advance(601_000);
  await stage.reach(
    "the next one serves",
    () => proxy.outcomes.served + proxy.outcomes.refused === 1,
  );
  assert.equal((await stage.rows())[0]?.reason, neverRan("10 minutes"));
});

test("a replica waits for its machine as long as the operator lets it", async (t) => {
  const stage = await openStage(t);
  stage.pendingMs = 45_000;
  stage.scripts = [{ ...goodStart, pendingMs: null }, goodStart];
  const { proxy } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  proxy.call(stage.appId, 10);
  await stage.reach("it was accepted", () => stage.driver.running().length === 1);
  await stage.clock.advance(44_000);
  assert.equal((await stage.rows())[0]?.reason, null);
  await stage.clock.advance(2_000);
  await stage.reach("it is given up on", async () => (await stage.rows())[0]?.reason !== null);
  assert.equal((await stage.rows())[0]?.reason, neverRan("45 seconds"));
});

test("where the first type of the list is in use, the next one is taken, and nothing is started where all are", async (t) => {
  const stage = await openStage(t, ["CPU", "HOPPER_H100", "ADA_L40"]);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.driver.full.add("HOPPER_H100").add("ADA_L40");
  stage.promote(
    await stage.addRelease({
      compute: ["HOPPER_H100", "ADA_L40"],
      gpuCount: 1,
      maxReplicaCount: 2,
    }),
  );
  proxy.call(stage.appId, 60_000);
  await stage.clock.advance(5_000);
  assert.equal(stage.driver.running().length, 0);
  assert.equal(proxy.demandOf(stage.appId).waiting, 1, "the call waits for room");
  assert.match(scheduler.waitReason(stage.appId) ?? "", /HOPPER_H100 or ADA_L40 is in use/);
  stage.driver.full.delete("ADA_L40");
  await stage.reach("the second type serves", () => proxy.demandOf(stage.appId).running === 1);
  stage.driver.full.delete("HOPPER_H100");
  proxy.call(stage.appId, 10);
  await stage.reach("the first type serves", () => stage.driver.running().length === 2);
  assert.deepEqual(
    stage.driver.running().map(({ spec }) => spec.compute),
    ["ADA_L40", "HOPPER_H100"],
  );
});

test("a start that is refused because the room has just gone counts as no room, in a trial too", async (t) => {
  const stage = await openStage(t);
  const reason = "There is no CPU left.";
  stage.scripts = [{ ...goodStart, refusal: { kind: "no_capacity", reason } }];
  const { scheduler } = await stage.openProcess(t);
  const options = { signal: t.signal, deadlineMs: 60_000, onLine: () => undefined };
  const trial = scheduler.tryRelease(await stage.addRelease(), options);
  await stage.reach("it is refused", async () => (await stage.states())["stopped"] === 1);
  assert.deepEqual(await trial, { ok: false, kind: "no_capacity", reason });
});

test("a server on another port says so in its log within seconds, and its start goes on", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, readyMs: 60_000 }];
  const { scheduler } = await stage.openProcess(t);
  const lines: string[] = [];
  const trial = scheduler.tryRelease(await stage.addRelease({ runtime: "custom" }), {
    signal: t.signal,
    deadlineMs: 120_000,
    onLine: ({ text }) => lines.push(text),
  });
  const found = "It listens on port 9000: set port = 9000, or have it listen on 8000.";
  await stage.reach("it runs", () => stage.driver.running().length === 1);
  stage.driver.elsewhere = found;
  await stage.clock.advance(2500);
  assert.deepEqual(lines, [], "its port may be the next that it opens");
  await stage.clock.advance(5000);
  const line = `[slipway] No call can reach it yet. ${found} The start goes on for up to 120 s, in case it opens its port later.`;
  assert.deepEqual(lines, [line]);
  assert.deepEqual(
    stage.lines.map(({ text }) => text),
    [line],
  );
  await stage.clock.advance(60_000);
  assert.deepEqual(await trial, { ok: true });
  assert.deepEqual(lines, [line], "once is enough");
});

test("a server that opens its port after another one is not said to be wrong", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, readyMs: 60_000 }];
  const { scheduler } = await stage.openProcess(t);
  const lines: string[] = [];
  const trial = scheduler.tryRelease(await stage.addRelease({ runtime: "custom" }), {
    signal: t.signal,
    deadlineMs: 120_000,
    onLine: ({ text }) => lines.push(text),
  });
  await stage.reach("it runs", () => stage.driver.running().length === 1);
  stage.driver.elsewhere = "It listens on port 9000.";
  await stage.clock.advance(1500);
  stage.driver.elsewhere = null;
  await stage.clock.advance(60_000);
  assert.deepEqual(await trial, { ok: true });
  assert.deepEqual(lines, []);
});

test("an app that scales by processor time gets replicas by what its replicas use", async (t) => {
  const stage = await openStage(t);
  const { proxy } = await stage.openProcess(t);
  const scaling = {
    scalingMetric: "cpu_utilization",
    scalingTarget: 50,
    cpu: 2,
    replicaConcurrency: 100,
  } as const;
  stage.promote(await stage.addRelease({ ...scaling, minReplicaCount: 1, maxReplicaCount: 4 }));
  proxy.call(stage.appId, 600_000);
  await stage.reach("one works", () => proxy.demandOf(stage.appId).running === 1);
  await stage.clock.advance(20_000);
  assert.equal(stage.driver.running().length, 1);
  const work = async (): Promise<void> => {
    for (const replica of stage.driver.running()) {
      replica.usage = { cpuSeconds: replica.usage.cpuSeconds + 2, memoryBytes: 0 };
    }
    await stage.clock.advance(1_000);
    // Rows of replicas take real time.
    await stage.rows();
  };
  for (let second = 0; second < 200 && stage.driver.running().length < 4; second++) await work();
  assert.equal(stage.driver.running().length, 4);
});

test("calls wait a while for a backend that does not answer, then hear of it, and are served once it answers", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  const reason = "The engine does not answer.";
  stage.driver.currentOutage = { sinceMs: stage.clock.monotonicMs(), reason };
  proxy.call(stage.appId, 10);
  await stage.clock.advance(9000);
  assert.deepEqual(proxy.outcomes, { served: 0, refused: 0, crashed: 0 });
  assert.equal(scheduler.waitReason(stage.appId), reason);
  await stage.clock.advance(2000);
  assert.equal(proxy.outcomes.refused, 1);
  const failure = view.failure(stage.appId);
  assert.deepEqual([failure?.kind, failure?.reason], ["outage", reason]);
  const trial = scheduler.tryRelease(await stage.addRelease(), {
    signal: new AbortController().signal,
    deadlineMs: 60_000,
    onLine: () => undefined,
  });
  assert.deepEqual(await trial, { ok: false, kind: "no_capacity", reason });
  assert.deepEqual(await stage.rows(), [], "nothing was started");
  stage.driver.currentOutage = null;
  await stage.reach("there is hope", () => view.failure(stage.appId) === undefined);
  proxy.call(stage.appId, 10);
  await stage.reach("it serves", () => proxy.outcomes.served === 1);
});

test("what serves goes on serving while the backend does not answer", async (t) => {
  const stage = await openStage(t);
  const { proxy, view } = await stage.openProcess(t);
  stage.promote(
    await stage.addRelease({ minReplicaCount: 1, maxReplicaCount: 2, replicaConcurrency: 1 }),
  );
  await stage.reach("it serves", () => view.ready(stage.appId).length === 1);
  stage.driver.currentOutage = {
    sinceMs: stage.clock.monotonicMs(),
    reason: "The engine does not answer.",
  };
  proxy.call(stage.appId, 20_000);
  proxy.call(stage.appId, 10);
  await stage.clock.advance(30_000);
  assert.deepEqual(proxy.outcomes, { served: 2, refused: 0, crashed: 0 });
  assert.equal(view.failure(stage.appId), undefined);
});

function neverRan(time: string): string {
  return `It did not run within ${time}: no machine was free for it, or its image took longer.`;
}
