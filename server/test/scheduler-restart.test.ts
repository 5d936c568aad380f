// What a new process of the platform makes of the replicas that an earlier one left.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { must } from "#lib/assert.ts";
import { newReplicaId, type ReplicaId } from "#lib/ids.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import { toJson } from "#store/json.ts";
import { addInstance } from "#test/support/instances.ts";
import { exitsEarly, goodStart, openStage, type Stage } from "./scheduler-stage.ts";

/** A stage on which one replica is ready and the platform is away. */
async function leaveOneReplica(t: TestContext): Promise<Stage> {
  const stage = await openStage(t);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 10 }));
  proxy.call(stage.appId, 10);
  await stage.reach(
    "it is ready",
    async () => (await stage.states())["ready"] === 1 && proxy.outcomes.served === 1,
  );
  await stage.closeProcess(scheduler);
  return stage;
}

function rowOf(stage: Stage, replicaId: ReplicaId) {
  return stage.db.selectFrom("replicas").selectAll().where("id", "=", replicaId).executeTakeFirst();
}

test("a ready replica is taken over, not started again, and kept for one cooldown", async (t) => {
  const stage = await leaveOneReplica(t);
  await stage.clock.advance(60_000);
  const { proxy, view } = await stage.openProcess(t);
  await stage.reach("it is in the view", () => view.ready(stage.appId).length === 1);
  proxy.call(stage.appId, 10);
  await stage.reach("it serves", () => proxy.outcomes.served === 1);
  assert.equal(stage.driver.started.size, 1);
  await stage.clock.advance(9000);
  assert.equal(view.ready(stage.appId).length, 1);
  await stage.clock.advance(4000);
  assert.equal(view.ready(stage.appId).length, 0);
});

test("a replica whose stored settings cannot be read is ended, its end written, and the platform starts", async (t) => {
  const stage = await leaveOneReplica(t);
  await stage.db
    .updateTable("releases")
    .set({ settings: toJson({ name: "app" }) })
    .execute();
  stage.withdraw();
  await stage.openProcess(t);
  await stage.reach("the end is written", async () => (await stage.states())["stopped"] === 1);
  assert.equal((await stage.rows())[0]?.reason, "Its release does not accept calls.");
  assert.deepEqual(stage.driver.running(), []);
});

test("lines that were not stored when the end of their replica was written are stored by the next process", async (t) => {
  const stage = await leaveOneReplica(t);
  const { db, driver } = stage;
  const replicaId = [...driver.started][0] ?? assert.fail();
  driver.crash(replicaId);
  await driver.open({ event: () => undefined, lines: () => Promise.resolve() });
  await driver.close();
  await driver.print(replicaId, "last words");
  await db
    .updateTable("replicas")
    .set({ state: "stopped", stopped_at: new Date(stage.clock.now()), reason: "It crashed." })
    .execute();
  await stage.openProcess(t);
  await stage.reach("nothing is left of it", () => driver.remains() === 0);
  assert.deepEqual(
    stage.lines.map(({ text, appId }) => [text, appId]),
    [["last words", stage.appId]],
  );
});

test("the end of a replica that ended meanwhile is written with its reason, and another one can start", async (t) => {
  const stage = await leaveOneReplica(t);
  stage.driver.crash([...stage.driver.started][0] ?? assert.fail());
  await stage.clock.advance(60_000);
  const { proxy } = await stage.openProcess(t);
  await stage.reach("the end is written", async () => (await stage.states())["stopped"] === 1);
  assert.equal((await stage.rows())[0]?.reason, "It ended with signal SIGSEGV.");
  proxy.call(stage.appId, 10);
  await stage.reach("a call is served", () => proxy.outcomes.served === 1);
  assert.equal(stage.driver.started.size, 2);
});

test("a replica that vanished counts until it was last known to live", async (t) => {
  const stage = await leaveOneReplica(t);
  const replicaId = [...stage.driver.started][0] ?? assert.fail();
  stage.driver.vanish(replicaId);
  await stage.clock.advance(3_600_000);
  await stage.openProcess(t);
  await stage.reach("the end is written", async () => (await stage.states())["stopped"] === 1);
  const [row] = await stage.rows();
  assert.equal(row?.reason, "It ended while the platform was away.");
  assert.ok(row.seen_at !== null && row.ready_at !== null && row.seen_at >= row.ready_at);
  assert.equal(row.stopped_at?.getTime(), row.seen_at.getTime());
});

test("a cooldown goes on where it was, and time away counts", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 100 }));
  proxy.call(stage.appId, 10);
  await stage.reach(
    "it has served",
    () => proxy.outcomes.served === 1 && view.ready(stage.appId).length === 1,
  );
  await stage.clock.advance(60_000);
  await stage.closeProcess(scheduler);
  await stage.clock.advance(10_000);
  const next = await stage.openProcess(t);
  await stage.clock.advance(20_000);
  assert.equal(next.view.ready(stage.appId).length, 1);
  await stage.clock.advance(15_000);
  assert.equal(next.view.ready(stage.appId).length, 0);
});

test("a start that failed again and again is not tried sooner by a new process, and calls hear why", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [exitsEarly(goodStart)];
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  for (let count = 1; count <= 4; count++) {
    proxy.call(stage.appId, 10);
    await stage.reach(
      `${count} have failed`,
      async () => (await stage.states())["stopped"] === count,
    );
    if (count < 4) await stage.clock.advance(900 * 2 ** (count - 1));
  }
  await stage.closeProcess(scheduler);
  const latest = must((await stage.rows()).at(-1)?.stopped_at, "it has failed").getTime();
  const next = await stage.openProcess(t);
  next.proxy.call(stage.appId, 10);
  await stage.clock.advance(1000);
  assert.equal(next.view.failure(stage.appId)?.kind, "start_failed");
  assert.match(next.view.failure(stage.appId)?.reason ?? "", /It ended with exit code 1/);
  await stage.clock.advance(5000);
  next.proxy.call(stage.appId, 10);
  await stage.reach("the next one is tried", async () => (await stage.rows()).length === 5);
  const tried = must((await stage.rows()).at(-1), "there are five").created_at.getTime();
  assert.ok(
    tried - latest >= 7_200,
    `the fourth failure asks for 8 s, it waited for ${tried - latest} ms`,
  );
});

test("what the scheduler knows of an app leaves the database when there is nothing more to know", async (t) => {
  const stage = await openStage(t);
  const { proxy } = await stage.openProcess(t);
  const known = (): Promise<unknown[]> => stage.db.selectFrom("app_scaling").selectAll().execute();
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 5 }));
  proxy.call(stage.appId, 10);
  await stage.reach("it is known", async () => (await known()).length === 1);
  await stage.reach("the app sleeps", async () => (await known()).length === 0);
  assert.deepEqual(await stage.states(), { stopped: 1 });
});

test("rows of another platform are not written off, and those of nobody are taken over", async (t) => {
  const stage = await leaveOneReplica(t);
  const { spec } = must(stage.driver.running()[0], "one replica runs");
  await addInstance(stage.db, { instanceId: "another", name: "fake" });
  await stage.db.updateTable("replicas").set({ instance_id: "another" }).execute();
  const first = await stage.openProcess(t);
  const isRunning = (): boolean =>
    stage.driver.running().some((one) => one.spec.replicaId === spec.replicaId);
  await stage.reach("what carries our label and has no row of ours is ended", () => !isRunning());
  await stage.clock.advance(31_000);
  const row = async () => must(await rowOf(stage, spec.replicaId), "it has a row");
  assert.equal((await row()).state, "ready");
  await stage.closeProcess(first.scheduler);
  await stage.db.deleteFrom("instances").where("id", "=", "another").execute();
  await stage.openProcess(t);
  await stage.reach("it gets its end", async () => (await row()).state === "stopped");
  assert.equal((await row()).instance_id, stage.driver.installationId);
});

test("a platform with an empty data folder takes over all that runs, and its rows say so", async (t) => {
  const stage = await leaveOneReplica(t);
  const before = must((await stage.rows())[0], "there is one");
  const fresh = { instanceId: "fresh", name: stage.driver.name };
  await addInstance(stage.db, fresh, stage.driver.installationId);
  const { view, scheduler } = await stage.openProcess(t, { instanceId: "fresh" });
  assert.equal(view.ready(stage.appId)[0]?.replicaId, before.id);
  assert.equal(stage.driver.started.size, 1, "nothing was started in its place");
  const row = must(await rowOf(stage, before.id), "it has a row");
  assert.deepEqual([row.state, row.instance_id], ["ready", "fresh"]);
  await stage.closeProcess(scheduler);
  await stage.openProcess(t);
  const after = must(await rowOf(stage, before.id), "it has a row");
  assert.deepEqual([after.state, after.instance_id], ["ready", stage.driver.installationId]);
});

test("a replica that no row tells of is stopped, also when it turns up later", async (t) => {
  const stage = await leaveOneReplica(t);
  const { spec } = must(stage.driver.running()[0], "one replica runs");
  const startStray = async (): Promise<void> => {
    const starting = stage.driver.start({ ...spec, replicaId: newReplicaId("stray") }, t.signal);
    await stage.clock.advance(1000);
    await starting;
  };
  await startStray();
  assert.equal(stage.driver.running().length, 2);
  const { view } = await stage.openProcess(t);
  await stage.reach("the stray is gone", () => stage.driver.running().length === 1);
  assert.equal(view.ready(stage.appId)[0]?.replicaId, spec.replicaId);
  await startStray();
  await stage.clock.advance(31_000);
  assert.ok(!stage.driver.running().some((one) => one.spec.replicaId.startsWith("stray")));
});

test("a replica that no row tells of is stopped while it waits for a machine, too", async (t) => {
  const stage = await leaveOneReplica(t);
  const { spec } = must(stage.driver.running()[0], "one replica runs");
  stage.scripts = [{ ...goodStart, pendingMs: null }];
  const startStray = async (): Promise<void> => {
    const starting = stage.driver.start({ ...spec, replicaId: newReplicaId("stray") }, t.signal);
    await stage.clock.advance(1000);
    await starting;
    assert.equal(stage.driver.running().at(-1)?.state, "pending");
  };
  const areGone = (): boolean =>
    stage.driver.running().every((one) => !one.spec.replicaId.startsWith("stray"));
  await startStray();
  await stage.openProcess(t);
  await stage.reach("the one from before the start is gone", areGone);
  await startStray();
  await stage.clock.advance(31_000);
  await stage.reach("the one that turned up later is gone", areGone);
});

test("a replica whose end was before the platform heard of its start lasted no time, and no less", async (t) => {
  const stage = await leaveOneReplica(t);
  const { id, started_at: startedAt } = must((await stage.rows())[0], "there is one");
  const at = must(startedAt, "it has started").getTime() - 2_000;
  await new ReplicaStore(stage.db).change(id, {
    kind: "stopped",
    at,
    reason: "It has ended.",
    exitCode: null,
  });
  const row = must(await rowOf(stage, id), "it has a row");
  assert.deepEqual([row.state, row.stopped_at], ["stopped", startedAt]);
});

test("a row whose replica was never started gets its end", async (t) => {
  const stage = await openStage(t);
  const first = await stage.openProcess(t);
  stage.scripts = [{ ...goodStart, createMs: 3_600_000 }];
  stage.promote(await stage.addRelease());
  first.proxy.call(stage.appId, 10);
  await stage.reach("the row is there", async () => (await stage.states())["starting"] === 1);
  await stage.closeProcess(first.scheduler);
  assert.deepEqual(await stage.states(), { stopped: 1 });
  assert.equal((await stage.rows())[0]?.reason, "The platform stopped.");
});

test("a replica that was draining is not replaced by a new process without any call, whatever that one could read", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, isStubborn: true }];
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ cooldownPeriodSeconds: 10 }));
  proxy.call(stage.appId, 10);
  await stage.reach("it drains", async () => (await stage.states())["draining"] === 1);
  await stage.closeProcess(scheduler);
  const reopen = async (): Promise<void> => {
    const next = await stage.openProcess(t);
    await stage.clock.advance(15_000);
    await stage.closeProcess(next.scheduler);
    assert.equal(stage.driver.started.size, 1);
  };
  await reopen();
  // As where nothing was noted of the app.
  await stage.db.deleteFrom("app_scaling").execute();
  await reopen();
});

test("a replica that drains has the rest of its grace period under the next process, for runs that go on", async (t) => {
  const stage = await openStage(t);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ responseGracePeriodSeconds: 400 }));
  proxy.call(stage.appId, 1_000_000);
  await stage.reach("it is busy", () => proxy.demandOf(stage.appId).running === 1);
  const replica = must(stage.driver.running()[0], "one replica runs");
  stage.withdraw();
  await stage.reach("it drains", async () => (await stage.states())["draining"] === 1);
  await stage.clock.advance(100_000);
  await stage.closeProcess(scheduler);
  await stage.openProcess(t, { heldOn: replica.spec.replicaId });
  await stage.clock.advance(260_000);
  assert.equal(replica.askedAtMs, null);
  await stage.reach(
    "it is asked to end half a minute before that",
    () => replica.askedAtMs !== null,
  );
  const row = must(await rowOf(stage, replica.spec.replicaId), "it has a row");
  const drainedMs = stage.clock.now() - (row.draining_at?.getTime() ?? 0);
  assert.ok(drainedMs >= 370_000 && drainedMs < 375_000, `${drainedMs}`);
});

test("a replica that was draining ends for the reason that it had, and one of an earlier version ends too", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [{ ...goodStart, isStubborn: true }];
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(
    await stage.addRelease({
      cooldownPeriodSeconds: 10,
      maxReplicaCount: 2,
      replicaConcurrency: 1,
      responseGracePeriodSeconds: 60,
    }),
  );
  for (const _ of ["one", "another"]) proxy.call(stage.appId, 1_000);
  await stage.reach("both drain", async () => (await stage.states())["draining"] === 2);
  const [first, second] = await stage.rows();
  assert.match(first?.reason ?? "", /needed/);
  await stage.closeProcess(scheduler);
  const asBefore = { end_kind: null, reason: null, grace_ends_at: null };
  await stage.db
    .updateTable("replicas")
    .set(asBefore)
    .where("id", "=", must(second, "there are two").id)
    .execute();
  await stage.openProcess(t);
  await stage.reach("both have ended", async () => (await stage.states())["stopped"] === 2);
  const reasons = (await stage.rows()).map(({ reason }) => reason);
  assert.deepEqual(reasons, [first?.reason, "It was being stopped."]);
});

test("what the driver refused to start is tried at once by a new process, since another driver may start it", async (t) => {
  const stage = await openStage(t);
  stage.scripts = [
    { ...goodStart, refusal: { kind: "refused", reason: "Another driver built it." } },
  ];
  const { proxy, scheduler, view } = await stage.openProcess(t);
  stage.promote(await stage.addRelease());
  proxy.call(stage.appId, 10);
  await stage.reach("calls are told", () => view.failure(stage.appId)?.kind === "start_failed");
  await stage.closeProcess(scheduler);
  stage.scripts = [goodStart];
  const next = await stage.openProcess(t);
  assert.equal(next.view.failure(stage.appId), undefined);
  next.proxy.call(stage.appId, 10);
  await stage.reach("it serves", () => next.proxy.outcomes.served === 1);
  assert.equal(next.proxy.outcomes.refused, 0);
});
