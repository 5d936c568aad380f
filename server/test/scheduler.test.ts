// The scheduler from the first call to the last replica's end, with its rows in a real database.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exitsEarly, goodStart, openStage } from "./scheduler-stage.ts";

test("the first call starts a replica, and its row tells its whole life", async (t) => {
  const stage = await openStage(t);
  const { proxy, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 10 }));
  proxy.call(stage.appId, 50);
  await stage.reach("the call is served", () => proxy.outcomes.served === 1);
  assert.equal(view.ready(stage.appId).length, 1);
  await stage.reach("the row is ready", async () => (await stage.states())["ready"] === 1);
  await stage.clock.advance(9000);
  assert.equal(view.ready(stage.appId).length, 1);
  await stage.clock.advance(4000);
  assert.equal(view.ready(stage.appId).length, 0);
  await stage.reach("the row is stopped", async () => (await stage.states())["stopped"] === 1);
  const [row] = await stage.rows();
  assert.equal(row?.reason, "It was no longer needed.");
  assert.equal(row.compute, "CPU");
  const times = [row.created_at, row.started_at, row.ready_at, row.draining_at, row.stopped_at].map(
    (at) => at?.getTime(),
  );
  assert.deepEqual(times, times.toSorted());
  await stage.reach("nothing is left of it", () => stage.driver.remains() === 0);
});

test("an idle replica is kept for the cooldownPeriodSeconds of its app, and no longer", async (t) => {
  const stage = await openStage(t);
  const { proxy, view } = await stage.openProcess(t);
  const patient = await stage.addApp("patient");
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 2 }));
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 60 }, patient));
  const serving = (): number[] => [stage.appId, patient].map((appId) => view.ready(appId).length);
  // Short ones, so that the replica has just started, and long ones, so that it started long ago.
  for (const [round, callMs] of [500, 100_000].entries()) {
    // One after the other: on a slow machine the second replica may start after the first call was
    // served.
    proxy.call(patient, callMs);
    await stage.reach("the patient app is called", () => proxy.demandOf(patient).running === 1);
    const patientEndMs = stage.clock.now() + callMs;
    proxy.call(stage.appId, callMs);
    await stage.reach("the other one is called", () => proxy.demandOf(stage.appId).running === 1);
    await stage.clock.advance(callMs);
    await stage.reach("both are served", () => proxy.outcomes.served === 2 * (round + 1));
    assert.deepEqual(serving(), [1, 1]);
    await stage.clock.advance(5_000);
    assert.deepEqual(serving(), [0, 1]);
    await stage.clock.advance(patientEndMs + 55_000 - stage.clock.now());
    assert.deepEqual(serving(), [0, 1]);
    await stage.clock.advance(10_000);
    assert.deepEqual(serving(), [0, 0]);
  }
});

test("a burst is met by as many replicas as it needs and the maximum allows", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ maxReplicaCount: 3 }));
  for (let count = 0; count < 5; count++) proxy.call(stage.appId, 1000);
  await stage.reach("three replicas work", () => proxy.demandOf(stage.appId).running === 3);
  assert.match(
    scheduler.waitReason(stage.appId) ?? "",
    /All 3 replicas are busy, and maxReplicaCount/,
  );
  await stage.reach("all are served", () => proxy.outcomes.served === 5);
  assert.equal((await stage.rows()).length, 3);
});

test("a release that passed its trial serves without another start, and the old one ends after its calls", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  proxy.call(stage.appId, 8000);
  await stage.reach("the old release works", () => proxy.demandOf(stage.appId).running === 1);
  const next = await stage.addRelease();
  const trial = scheduler.tryRelease(next, {
    signal: t.signal,
    deadlineMs: 60_000,
    onLine: () => undefined,
  });
  await stage.reach("two replicas are ready", async () => (await stage.states())["ready"] === 2);
  assert.deepEqual(await trial, { ok: true });
  assert.notEqual(view.ready(stage.appId)[0]?.releaseId, next.releaseId);
  stage.promote(next);
  proxy.call(stage.appId, 10);
  await stage.reach("the new release has served", () => proxy.outcomes.served === 1);
  assert.equal(view.ready(stage.appId)[0]?.releaseId, next.releaseId);
  assert.equal(stage.driver.running().length, 2);
  await stage.reach("the long call is served too", () => proxy.outcomes.served === 2);
  await stage.reach("the old replica is gone", () => stage.driver.running().length === 1);
  assert.equal(proxy.outcomes.crashed, 0);
  assert.equal(stage.driver.started.size, 2);
});

test("a release that is replaced within a minute of its promotion leaves no replica behind", async (t) => {
  const stage = await openStage(t);
  const { scheduler, view } = await stage.openProcess(t);
  for (let count = 0; count < 3; count++) {
    const next = await stage.addRelease({ cooldownPeriodSeconds: 600 });
    const trial = scheduler.tryRelease(next, {
      signal: t.signal,
      deadlineMs: 60_000,
      onLine: () => undefined,
    });
    await stage.reach(
      "its replica is ready",
      async () => (await stage.states())["ready"] === Math.min(count + 1, 2),
    );
    assert.deepEqual(await trial, { ok: true });
    stage.promote(next);
    const promotedAtMs = stage.clock.monotonicMs();
    await stage.reach(
      "it takes the calls",
      () => view.ready(stage.appId)[0]?.releaseId === next.releaseId,
    );
    await stage.reach("the one before is gone", () => stage.driver.running().length === 1);
    assert.ok(
      stage.clock.monotonicMs() - promotedAtMs < 5000,
      "it is gone as soon as it has no calls",
    );
  }
  assert.deepEqual(stage.lines, [], "what the platform ends itself is no news for the app's owner");
});

test("a replica that passed its trial is ended when its release is not promoted", async (t) => {
  const stage = await openStage(t);
  const { scheduler } = await stage.openProcess(t);
  const trial = scheduler.tryRelease(await stage.addRelease(), {
    signal: t.signal,
    deadlineMs: 60_000,
    onLine: () => undefined,
  });
  await stage.reach("it is ready", async () => (await stage.states())["ready"] === 1);
  assert.deepEqual(await trial, { ok: true });
  await stage.clock.advance(50_000);
  assert.equal(stage.driver.running().length, 1);
  await stage.clock.advance(15_000);
  assert.equal(stage.driver.running().length, 0);
});

test("a trial that fails says why, hands its lines on and leaves nothing", async (t) => {
  const stage = await openStage(t);
  const { scheduler } = await stage.openProcess(t);
  stage.scripts = [exitsEarly({ ...goodStart, readyMs: 4000 })];
  const lines: string[] = [];
  const trial = scheduler.tryRelease(await stage.addRelease(), {
    signal: t.signal,
    deadlineMs: 60_000,
    onLine: (line) => lines.push(line.text),
  });
  await stage.reach("it runs", () => stage.driver.running().length === 1);
  const [replica] = stage.driver.running();
  await stage.driver.print(replica?.spec.replicaId ?? assert.fail(), "no module named torch");
  await stage.clock.advance(3000);
  assert.deepEqual(await trial, {
    ok: false,
    kind: "failed",
    reason: "It ended with exit code 1.",
  });
  assert.deepEqual(lines, ["no module named torch"]);
  assert.equal(stage.lines[0]?.appId, stage.appId);
  await stage.reach("its end is written", async () => (await stage.states())["stopped"] === 1);
  assert.equal(stage.driver.running().length, 0);
  stage.scripts = [{ ...exitsEarly({ ...goodStart, readyMs: 4000 }), hint: "Its port is in use." }];
  const options = { signal: t.signal, deadlineMs: 60_000, onLine: () => undefined };
  const odd = scheduler.tryRelease(await stage.addRelease(), options);
  await stage.reach(
    "the next one is written too",
    async () => (await stage.states())["stopped"] === 2,
  );
  const reason = "It ended with exit code 1. Its port is in use.";
  assert.deepEqual(await odd, { ok: false, kind: "failed", reason });
});

test("a trial ends when its time is up, when it is cancelled, and at once when there is no such compute", async (t) => {
  const stage = await openStage(t);
  const { scheduler } = await stage.openProcess(t);
  stage.scripts = [goodStart, goodStart].map((script) => ({ ...script, readyMs: null }));
  const late = scheduler.tryRelease(await stage.addRelease(), {
    signal: t.signal,
    deadlineMs: 60_000,
    onLine: () => undefined,
  });
  await stage.reach("it runs", () => stage.driver.running().length === 1);
  await stage.clock.advance(61_000);
  const slow = "It did not become ready within 60 seconds. Its main.py was still being imported.";
  assert.deepEqual(await late, { ok: false, kind: "timeout", reason: slow });
  const server = scheduler.tryRelease(await stage.addRelease({ runtime: "custom" }), {
    signal: t.signal,
    deadlineMs: 60_000,
    onLine: () => undefined,
  });
  await stage.reach("the server runs", () => stage.driver.running().length === 1);
  await stage.clock.advance(61_000);
  const unready = "It did not become ready within 60 seconds. It does not answer.";
  assert.deepEqual(await server, { ok: false, kind: "timeout", reason: unready });

  const abort = new AbortController();
  const cancelled = scheduler.tryRelease(await stage.addRelease(), {
    signal: abort.signal,
    deadlineMs: 60_000,
    onLine: () => undefined,
  });
  await stage.reach("the second one runs", () => stage.driver.running().length === 1);
  abort.abort();
  await stage.clock.advance(100);
  assert.deepEqual(await cancelled, {
    ok: false,
    kind: "failed",
    reason: "The trial start was cancelled.",
  });

  const none = await scheduler.tryRelease(
    await stage.addRelease({ compute: ["HOPPER_H100", "HOPPER_H200"] }),
    {
      signal: t.signal,
      deadlineMs: 60_000,
      onLine: () => undefined,
    },
  );
  assert.deepEqual(none, {
    ok: false,
    kind: "impossible",
    reason:
      "The app requests compute HOPPER_H100 or HOPPER_H200, but this platform has only CPU. Request a compute type that it has: compute (PATCH …/apps/{app}), or hardware.compute in the TOML file. To try the app without it, the operator can set SLIPWAY_SIMULATE_COMPUTE=true.",
  });
  assert.equal(stage.driver.running().length, 0);
});

test("waiting calls learn why starts fail, and a call after the pause tries again", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.scripts = [exitsEarly(goodStart), exitsEarly(goodStart), goodStart];
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 0 }));
  proxy.call(stage.appId, 10);
  await stage.reach("the first start failed", () => scheduler.counters.startFailures === 1);
  assert.equal(view.failure(stage.appId), undefined);
  assert.equal(proxy.demandOf(stage.appId).waiting, 1);
  await stage.reach("the call is refused", () => proxy.outcomes.refused === 1);
  assert.match(
    view.failure(stage.appId)?.reason ?? "",
    /^No replica of the app runs: It ended with exit code 1\. The app's log/,
  );
  proxy.call(stage.appId, 10);
  assert.equal(proxy.outcomes.refused, 2, "no call waits while nothing is tried");
  await stage.clock.advance(2500);
  assert.equal(view.failure(stage.appId), undefined);
  proxy.call(stage.appId, 10);
  await stage.reach("the third start serves it", () => proxy.outcomes.served === 1);
});

test("an app whose compute is not to be had is told so and starts nothing", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ compute: ["ADA_L4"], minReplicaCount: 1 }));
  await stage.clock.advance(60_000);
  assert.equal(view.failure(stage.appId)?.kind, "no_capacity");
  assert.match(
    scheduler.waitReason(stage.appId) ?? "",
    /requests compute ADA_L4, but this platform has only CPU/,
  );
  proxy.call(stage.appId, 10);
  assert.equal(proxy.outcomes.refused, 1);
  assert.deepEqual(await stage.rows(), []);
  stage.promote(await stage.addRelease({ compute: ["ADA_L4", "CPU"] }));
  await stage.reach("there is hope", () => view.failure(stage.appId) === undefined);
  proxy.call(stage.appId, 10);
  await stage.reach("the second choice serves", () => proxy.outcomes.served === 1);
});

test("replicas that crash under their calls one after the other refuse no call that waits", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  for (let crashes = 1; crashes <= 4; crashes++) {
    proxy.call(stage.appId, 600_000);
    proxy.call(stage.appId, 10);
    await stage.reach("one works, one waits", () => proxy.demandOf(stage.appId).running === 1);
    stage.driver.crash([...stage.driver.started].at(-1) ?? assert.fail());
    await stage.reach(
      "the other is served by the next replica",
      () => proxy.outcomes.served === crashes,
    );
    assert.deepEqual(proxy.outcomes, { served: crashes, refused: 0, crashed: crashes });
  }
  assert.equal(scheduler.counters.startFailures, 0);
});

test("a replica that crashed under a call is replaced while others wait", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  proxy.call(stage.appId, 5000);
  proxy.call(stage.appId, 10);
  await stage.reach("one works, one waits", () => proxy.demandOf(stage.appId).running === 1);
  stage.driver.crash([...stage.driver.started][0] ?? assert.fail());
  await stage.reach(
    "the waiting call is served by the next replica",
    () => proxy.outcomes.served === 1,
  );
  assert.deepEqual(proxy.outcomes, { served: 1, refused: 0, crashed: 1 });
  assert.equal(scheduler.counters.crashes, 1);
  assert.equal(scheduler.counters.startFailures, 0);
  await stage.reach(
    "its end is written",
    async () => (await stage.rows())[0]?.reason === "It ended with signal SIGSEGV.",
  );
  const crashed = [...stage.driver.started][0];
  const told = stage.lines.map(({ replicaId, stream, text }) => ({ replicaId, stream, text }));
  const text = "[slipway] The replica has ended: It ended with signal SIGSEGV.";
  assert.deepEqual(
    told,
    [{ replicaId: crashed, stream: "stderr", text }],
    "its app's log says why it is gone",
  );
});
