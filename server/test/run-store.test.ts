// The rows of async runs on a real database: who may write what, and that whoever lost a run
// changes nothing any more.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import {
  newRunId,
  type AppId,
  type ProjectId,
  type ReleaseId,
  type ReplicaId,
  type RunId,
} from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { RunStore, type HeldRun, type NewRun, type RunEnd } from "#runs/run-store.ts";
import type { Db } from "#store/database.ts";
import { Leases } from "#store/lease.ts";
import { testDatabase } from "#test/support/database.ts";

const leaseMs = 60_000;
const appId = "p-00000001-hello" as AppId;
const replicaId = "hello-1" as ReplicaId;
const releaseId = "00000000-0000-4000-8000-000000000001" as ReleaseId;

type Stage = {
  db: Db;
  ours: RunStore;
  theirs: RunStore;
  claim(holder: string, state?: string): Promise<HeldRun[]>;
};

async function stage(t: TestContext): Promise<Stage> {
  const { db } = await testDatabase(t);
  const leasesOf = (holder: string): Leases<"runs"> =>
    new Leases({ clock: systemClock, db, table: "runs", holder, leaseMs, log: silentLog });
  return {
    db,
    ours: new RunStore({ db, holder: "ours", leaseMs }),
    theirs: new RunStore({ db, holder: "theirs", leaseMs }),
    async claim(holder, state = "pending") {
      const claimed = await leasesOf(holder).claim({
        where: sql`state = ${state}`,
        order: sql`due_at, id`,
        limit: 100,
        ...(state === "pending" ? { set: sql`state = 'queued'` } : {}),
      });
      return claimed.map(({ id, epoch }) => ({ runId: id, epoch }));
    },
  };
}

function newRun(changes: Partial<NewRun> = {}): NewRun {
  return {
    runId: newRunId(),
    projectId: "p-00000001" as ProjectId,
    appId,
    releaseId,
    method: "POST",
    target: "/run?x=1",
    lines: "Content-Type: application/json\r\nX-Name: ä\xff\r\n",
    body: Buffer.from([0, 1, 2, 255]),
    clientAddress: "127.0.0.1",
    retriesMax: 0,
    webhookEndpoint: null,
    webhookSecretSealed: null,
    isHeld: true,
    ...changes,
  };
}

function end(held: HeldRun, state: RunEnd["state"] = "success"): RunEnd {
  const result = {
    status: 200,
    contentType: "text/plain",
    body: Buffer.from("done"),
    bodyBytes: 4,
  };
  return { ...held, state, statusCode: 200, reason: null, result };
}

async function stateOf(db: Db, runId: RunId): Promise<string> {
  const row = await db
    .selectFrom("runs")
    .select("state")
    .where("id", "=", runId)
    .executeTakeFirstOrThrow();
  return row.state;
}

async function expire(db: Db): Promise<void> {
  await sql`update runs set lease_until = clock_timestamp() - interval '1 second' where lease_until is not null`.execute(
    db,
  );
}

test("a run is stored with its request byte for byte, in hand or waiting for anybody", async (t) => {
  const { db, ours, claim } = await stage(t);
  const inHand = newRun();
  const waiting = newRun({ isHeld: false });
  await ours.insert([inHand, waiting]);
  assert.equal(await stateOf(db, inHand.runId), "queued");
  assert.equal(await stateOf(db, waiting.runId), "pending");
  const held = await claim("ours");
  assert.deepEqual(held, [{ runId: waiting.runId, epoch: 1 }]);
  const [work] = await ours.read(held);
  assert.deepEqual(
    [work?.lines, work?.body, work?.target],
    [waiting.lines, waiting.body, "/run?x=1"],
  );
  const row = await db
    .selectFrom("runs")
    .select("path")
    .where("id", "=", waiting.runId)
    .executeTakeFirstOrThrow();
  assert.equal(row.path, "/run", "the query is not listed");
});

test("long bodies are stored beside short ones, each with its own run", async (t) => {
  const { db, ours } = await stage(t);
  const bodies = [
    Buffer.alloc(40_000, 7),
    Buffer.alloc(0),
    Buffer.alloc(100_000, 255),
    Buffer.from("short"),
  ];
  const runs = bodies.map((body) => newRun({ body }));
  await ours.insert(runs);
  for (const { runId, body } of runs) {
    const row = await db
      .selectFrom("run_requests")
      .select("body")
      .where("run_id", "=", runId)
      .executeTakeFirstOrThrow();
    assert.ok(row.body.equals(body), `${body.length} bytes`);
  }
});

test("a run starts, ends with its result, and its request goes with it", async (t) => {
  const { db, ours } = await stage(t);
  const { runId } = newRun();
  await ours.insert([newRun({ runId })]);
  const held = { runId, epoch: 1 };
  assert.deepEqual(await ours.start([{ ...held, replicaId, releaseId }]), [true]);
  assert.deepEqual(await ours.finish([end(held)], db), [true]);
  assert.deepEqual(
    await ours.finish([end(held, "failure")], db),
    [false],
    "a final state never changes",
  );
  assert.equal(await stateOf(db, runId), "success");
  assert.equal((await db.selectFrom("run_results").selectAll().execute()).length, 1);
  assert.equal((await db.selectFrom("run_requests").selectAll().execute()).length, 0);
});

test("whoever lost a run neither starts, ends nor gives it back", async (t) => {
  const { db, ours, theirs, claim } = await stage(t);
  const { runId } = newRun();
  await ours.insert([newRun({ runId })]);
  const lost = { runId, epoch: 1 };
  await expire(db);
  assert.equal(await theirs.reapQueued(10), 1);
  const [held] = await claim("theirs");
  assert.ok(held !== undefined && held.epoch > 1);
  const giving = { delayMs: 0, statusCode: null, reason: null, attempt: 0 };
  for (const store of [ours, theirs]) {
    assert.deepEqual(await store.start([{ ...lost, replicaId, releaseId }]), [false]);
    assert.deepEqual(await store.finish([end(lost)], db), [false]);
    assert.deepEqual(await store.giveBack([{ ...lost, ...giving }]), [false]);
  }
  assert.deepEqual(await theirs.start([{ ...held, replicaId, releaseId }]), [true]);
  assert.equal((await db.selectFrom("run_results").selectAll().execute()).length, 0);
});

test("a platform that took a run over from itself does not mistake the old hold for the new one", async (t) => {
  const { db, ours, claim } = await stage(t);
  const { runId } = newRun();
  await ours.insert([newRun({ runId })]);
  const old = { runId, epoch: 1 };
  await sql`update runs set lease_until = clock_timestamp() - interval '1 second'`.execute(db);
  assert.equal(await ours.reapQueued(10), 1);
  const [held] = await claim("ours");
  assert.ok(held);
  const starts = [old, held].map((one) => ({ ...one, replicaId, releaseId }));
  assert.deepEqual(await ours.start(starts), [false, true]);
  assert.deepEqual(await ours.finish([end(old, "failure"), end(held)], db), [false, true]);
  assert.equal(await stateOf(db, runId), "success");
});

test("what was claimed and lost is not read, nor is it when it was claimed again meanwhile", async (t) => {
  const { db, ours, theirs, claim } = await stage(t);
  await ours.insert([newRun({ isHeld: false })]);
  const first = await claim("ours");
  assert.equal((await ours.read(first)).length, 1);
  await expire(db);
  await theirs.reapQueued(10);
  assert.deepEqual(await ours.read(first), []);
  const second = await claim("ours");
  assert.deepEqual(await ours.read(first), []);
  assert.deepEqual(
    (await ours.read(second)).map(({ epoch }) => epoch),
    second.map(({ epoch }) => epoch),
  );
});

test("a lost run that was running is taken over as running, and never goes back to the line by itself", async (t) => {
  const { db, ours, theirs, claim } = await stage(t);
  const { runId } = newRun();
  await ours.insert([newRun({ runId })]);
  await ours.start([{ runId, epoch: 1, replicaId, releaseId }]);
  await expire(db);
  assert.equal(await theirs.reapQueued(10), 0);
  const held = await claim("theirs", "running");
  assert.deepEqual(held, [{ runId, epoch: 2 }]);
  const [orphan] = await theirs.read(held);
  assert.deepEqual([orphan?.replicaId, orphan?.attempt], [replicaId, 1]);
});

test("a run that is to be cancelled does not start, and is cancelled when it goes back or is found lost", async (t) => {
  const { db, ours } = await stage(t);
  const ids = [newRunId(), newRunId(), newRunId()] as const;
  await ours.insert(ids.map((runId) => newRun({ runId })));
  await sql`update runs set cancel_requested_at = clock_timestamp()`.execute(db);
  assert.deepEqual((await ours.cancelRequested()).toSorted(), ids.toSorted());
  assert.deepEqual(await ours.start([{ runId: ids[0], epoch: 1, replicaId, releaseId }]), [false]);
  const back = { runId: ids[0], epoch: 1, delayMs: 0, statusCode: null, reason: null, attempt: 0 };
  assert.deepEqual(await ours.giveBack([back]), [true]);
  assert.deepEqual(
    await ours.finish([{ ...end({ runId: ids[1], epoch: 1 }, "cancelled"), result: null }], db),
    [true],
  );
  await expire(db);
  assert.equal(await ours.reapQueued(10), 1);
  for (const runId of ids) assert.equal(await stateOf(db, runId), "cancelled");
});

test("apps with work are found without reading their backlog, and with the time until the first is due", async (t) => {
  const { db, ours } = await stage(t);
  const apps = ["a", "b", "c"].map((name) => `p-00000001-${name}` as AppId);
  for (const app of apps)
    await ours.insert([
      newRun({ appId: app, isHeld: false }),
      newRun({ appId: app, isHeld: false }),
    ]);
  await sql`update runs set due_at = clock_timestamp() + interval '10 seconds' where app_id = ${apps[1] ?? ""}`.execute(
    db,
  );
  await sql`update runs set state = 'cancelled', ended_at = clock_timestamp() where app_id = ${apps[2] ?? ""}`.execute(
    db,
  );
  const found = await ours.appsWithWork();
  assert.deepEqual(
    found.map((one) => one.appId),
    apps.slice(0, 2),
  );
  assert.ok((found[0]?.dueInMs ?? 1) <= 0);
  const later = found[1]?.dueInMs ?? 0;
  assert.ok(later > 5_000 && later <= 10_000, `due in ${later} ms`);
});

test("a start that is taken back costs no attempt, and its number is not given to the next one", async (t) => {
  const { db, ours, theirs, claim } = await stage(t);
  const { runId } = newRun();
  await ours.insert([newRun({ runId })]);
  await ours.start([{ runId, epoch: 1, replicaId, releaseId }]);
  await ours.start([{ runId, epoch: 1, replicaId, releaseId }]);
  const back = { runId, delayMs: 0, statusCode: null, reason: null, attempt: 0 };
  await ours.giveBack([{ ...back, epoch: 1 }]);
  await claim("theirs");
  assert.deepEqual(await theirs.start([{ runId, epoch: 2, replicaId, releaseId }]), [true]);
  const row = await db
    .selectFrom("runs")
    .selectAll()
    .where("id", "=", runId)
    .executeTakeFirstOrThrow();
  assert.deepEqual([row.attempt, row.starts], [1, 2]);
});

test("a run that goes back counts its attempts and is due later", async (t) => {
  const { db, ours, claim } = await stage(t);
  const { runId } = newRun();
  await ours.insert([newRun({ runId })]);
  await ours.start([{ runId, epoch: 1, replicaId, releaseId }]);
  const back = {
    runId,
    epoch: 1,
    delayMs: 60_000,
    statusCode: 503,
    reason: "The app answered with status 503.",
    attempt: 1,
  };
  const beganMs = Date.now();
  assert.deepEqual(await ours.giveBack([back]), [true]);
  assert.deepEqual(
    (await claim("ours")).length,
    1,
    "the store does not look at the time; the runner's condition does",
  );
  const row = await db
    .selectFrom("runs")
    .selectAll()
    .where("id", "=", runId)
    .executeTakeFirstOrThrow();
  assert.deepEqual([row.attempt, row.status_code, row.reason], [1, 503, back.reason]);
  assert.ok(row.due_at.getTime() >= beganMs + back.delayMs);
});
