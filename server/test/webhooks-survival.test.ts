// Webhooks of platforms that are killed, that stall, or that work on one database at the same time:
// every delivery arrives, ends in one state, and nothing is stuck.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import type { DeliveryId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { endpointOf } from "#webhooks/endpoint.ts";
import "#test/support/leftovers.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { until } from "#test/support/until.ts";
import type { ChildTask } from "./webhooks-child.ts";
import {
  addAll,
  answerWith,
  countStates,
  deliveryOnce,
  startReceiver,
  webhookStage,
  type Receiver,
  type Stage,
} from "./webhooks-stage.ts";

/** Runs a platform until it kills itself after the step. */
async function crashAfter(
  t: TestContext,
  stage: Stage,
  step: string,
  task: ChildTask,
): Promise<void> {
  const child = spawn(
    process.execPath,
    [
      join(import.meta.dirname, "webhooks-child.ts"),
      stage.url.reveal(),
      step,
      JSON.stringify(task),
    ],
    { stdio: ["ignore", "inherit", "inherit"] },
  );
  t.after(() => child.kill("SIGKILL"));
  const [, signal] = (await once(child, "exit", { signal: AbortSignal.timeout(120_000) })) as [
    unknown,
    unknown,
  ];
  assert.equal(signal, "SIGKILL", `it should have been killed after ${step}`);
}

/** Every delivery is delivered with one success, arrived at least once, and nobody holds it. */
async function assertAllDelivered(
  db: Db,
  receiver: Receiver,
  ids: readonly DeliveryId[],
): Promise<void> {
  await until(
    "all are delivered",
    async () => (await countStates(db))["delivered"] === ids.length,
    {
      deadlineMs: 30_000,
    },
  );
  const { rows } = await sql<{
    id: DeliveryId;
    successes: number;
    isHeld: boolean;
    attempts: number;
    rows: number;
  }>`
    select id, lease_holder is not null as "isHeld", attempts,
           (select count(*) from webhook_attempts where delivery_id = id) as rows,
           (select count(*) from webhook_attempts where delivery_id = id and reason is null) as successes
      from webhook_deliveries`.execute(db);
  assert.deepEqual(rows.map(({ id }) => id).toSorted(), ids.toSorted());
  for (const row of rows) {
    assert.deepEqual([row.isHeld, row.successes, row.rows], [false, 1, row.attempts], row.id);
  }
  const arrived = new Set(receiver.received.map(({ headers }) => headers["webhook-id"]));
  assert.deepEqual(
    ids.filter((id) => !arrived.has(id)),
    [],
  );
}

async function allIds(db: Db): Promise<DeliveryId[]> {
  return (await db.selectFrom("webhook_deliveries").select("id").execute()).map(({ id }) => id);
}

const count = 40;

/**
 * Soon takes over what a platform that was killed held: as long a lease as the platform's that is
 * killed.
 */
const soon = { leaseMs: 3000 };

const kills = (["added", "claimed", "sent", "written"] as const).flatMap((step) =>
  (["the same folder", "another platform"] as const).map((successor) => ({ step, successor })),
);

for (const { step, successor } of drawCases(kills, {
  what: "kills behind a step",
  max: 2,
  kindOf: (kill) => kill.successor,
})) {
  test(`a platform killed after "${step}" loses nothing: ${successor} goes on`, async (t) => {
    const stage = await webhookStage(t);
    const receiver = await startReceiver(t);
    const { db, projectId } = stage;
    const deliveries = Array.from({ length: count }, () => stage.delivery(`${receiver.url}/hook`));
    if (step === "claimed") {
      // They wait in the database when the platform starts.
      const earlier = await stage.open({ atOnce: 1 });
      receiver.answer = answerWith(503);
      await addAll(db, earlier, deliveries);
      await earlier.stop();
      await stage.makeDue();
      receiver.answer = answerWith(200);
    }
    await crashAfter(t, stage, step, {
      projectId,
      ...(step === "claimed" ? {} : { add: deliveries }),
    });
    const ids = await allIds(db);
    assert.equal(ids.length, count, "what was committed is there");
    assert.notEqual((await countStates(db))["delivered"], count, "the kill came in between");
    await stage.open({
      ...soon,
      ...(successor === "the same folder" ? { instanceId: "crashing" } : {}),
    });
    await assertAllDelivered(db, receiver, ids);
  });
}

test("a platform that is killed again and again in the midst of its work loses nothing and ends each delivery once", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const { db, projectId } = stage;
  // Every third attempt fails, so that there are retries between the kills.
  receiver.answer = (response) => {
    response.writeHead(receiver.received.length % 3 === 0 ? 503 : 200).end();
  };
  for (const step of ["sent:7", "claimed:1", "written:2", "sent:21", "claimed:4", "written:0"]) {
    await stage.makeDue();
    const add = Array.from({ length: count }, () => stage.delivery(`${receiver.url}/hook`));
    await crashAfter(t, stage, step, { projectId, add });
  }
  const ids = await allIds(db);
  // One may be killed over what others left, before its own are committed.
  assert.ok(ids.length >= count && ids.length % count === 0, `${ids.length} deliveries are there`);
  receiver.answer = answerWith(200);
  await stage.open({ ...soon, instanceId: "crashing" });
  await until("nothing is left to another process", async () => {
    await stage.makeDue();
    return (await countStates(db))["delivered"] === ids.length;
  });
  await assertAllDelivered(db, receiver, ids);
  const twice =
    receiver.received.length -
    new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size;
  t.diagnostic(
    `${receiver.received.length} arrived for ${ids.length} deliveries; ${twice} more than once`,
  );
});

test("a platform killed right after a replay, or after an endpoint was resumed, has it done", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const { db, projectId } = stage;
  const webhooks = await stage.open(soon);
  receiver.answer = answerWith(400);
  const url = `${receiver.url}/hook`;
  const [added] = await addAll(db, webhooks, [stage.delivery(url)]);
  assert.ok(added);
  const place = { projectId, id: added.id };
  await deliveryOnce(webhooks, place, ({ state }) => state === "failed");
  receiver.answer = answerWith(200);
  await crashAfter(t, stage, "replayed", { projectId, replay: added.id });
  await deliveryOnce(webhooks, place, ({ state }) => state === "delivered");

  const { id: endpointId } = endpointOf(projectId, url);
  await db
    .updateTable("webhook_endpoints")
    .set({ paused_at: new Date() })
    .where("id", "=", endpointId)
    .execute();
  const [waiting] = await addAll(db, webhooks, [stage.delivery(url)]);
  assert.ok(waiting);
  await crashAfter(t, stage, "resumed", { projectId, resume: endpointId });
  await deliveryOnce(webhooks, { projectId, id: waiting.id }, ({ state }) => state === "delivered");
});

test("two platforms on one database send each delivery once between them, and write each end once", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const { db } = stage;
  const both = await Promise.all([stage.open({ atOnce: 8 }), stage.open({ atOnce: 8 })]);
  const batches = Array.from({ length: 10 }, () =>
    Array.from({ length: 50 }, () => stage.delivery(`${receiver.url}/hook`)),
  );
  const added = await Promise.all(
    batches.map((batch, index) => {
      const webhooks = both[index % 2];
      assert.ok(webhooks);
      return addAll(db, webhooks, batch);
    }),
  );
  const ids = added.flat().map(({ id }) => id);
  await assertAllDelivered(db, receiver, ids);
  assert.equal(receiver.received.length, ids.length, "nothing arrived twice");
});

test("a platform that lost its lease while it was sending changes nothing any more", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const { db, projectId } = stage;
  // Does not look after its leases while the test runs.
  const stalled = await stage.open({ leaseMs: 600_000, surveyMs: 600_000 });
  const answers: (() => void)[] = [];
  receiver.answer = (response) => void answers.push(() => response.writeHead(400).end());
  const [added] = await addAll(db, stalled, [stage.delivery(`${receiver.url}/hook`)]);
  assert.ok(added);
  await until("it was sent", () => answers.length === 1);
  await db
    .updateTable("webhook_deliveries")
    .set({ lease_until: new Date(0) })
    .execute();
  receiver.answer = answerWith(503, "second");
  const other = await stage.open();
  const place = { projectId, id: added.id };
  await deliveryOnce(other, place, ({ attempts }) => attempts === 1);
  // This answer would end the delivery as failed.
  for (const answer of answers) answer();
  await until("the late answer was looked at", () => stalled.underWay === 0);
  const { delivery, attempts } = await other.useCases.readDelivery(projectId, added.id);
  assert.deepEqual([delivery.state, delivery.attempts, attempts.length], ["pending", 1, 1]);
  assert.equal(attempts[0]?.answer, "second");
});

test("a lease is extended for as long as a slow receiver takes", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const { db, projectId } = stage;
  // Long enough that a busy machine does not stand still for two thirds of it, after which the
  // other one would send it too.
  const leaseMs = 3000;
  const one = await stage.open({ leaseMs });
  await stage.open({ leaseMs });
  const answers: (() => void)[] = [];
  receiver.answer = (response) => void answers.push(() => response.writeHead(200).end());
  const [added] = await addAll(db, one, [stage.delivery(`${receiver.url}/hook`)]);
  assert.ok(added);
  await until("it was sent", () => answers.length === 1);
  const first = await db
    .selectFrom("webhook_deliveries")
    .select("lease_until")
    .executeTakeFirstOrThrow();
  await until(
    "the lease was extended again when its first time was over",
    async () => {
      const row = await db
        .selectFrom("webhook_deliveries")
        .select("lease_until")
        .executeTakeFirstOrThrow();
      return Number(row.lease_until) - Number(first.lease_until) > leaseMs;
    },
    { deadlineMs: 60_000 },
  );
  for (const answer of answers) answer();
  await deliveryOnce(one, { projectId, id: added.id }, ({ state }) => state === "delivered");
  assert.equal(receiver.received.length, 1);
});
