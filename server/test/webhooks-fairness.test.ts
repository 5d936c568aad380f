// Webhooks to receivers that are dead or slow: others go on as if they were not there, and nothing
// is lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createProject } from "#accounts/projects.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import "#test/support/leftovers.ts";
import { byPlatform } from "#test/support/accounts.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { makePerson } from "#test/support/person.ts";
import { until } from "#test/support/until.ts";
import {
  addAll,
  answerWith,
  countStates,
  startReceiver,
  webhookStage,
  type Receiver,
  type Stage,
} from "./webhooks-stage.ts";

const backlogCount = 10_000;
/** How long a delivery to a receiver that says nothing takes; nobody else waits for that. */
const timeoutMs = 2000;

/** Rows as an earlier platform left them, all due. */
async function addBacklog(
  stage: Stage,
  webhooks: Awaited<ReturnType<Stage["open"]>>,
  urlOf: (index: number) => string,
): Promise<void> {
  const batch = 1000;
  for (let from = 0; from < backlogCount; from += batch) {
    const deliveries = Array.from({ length: batch }, (_, index) =>
      stage.delivery(urlOf(from + index)),
    );
    await addAll(stage.db, webhooks, deliveries);
  }
}

/**
 * How long each of `count` deliveries took from its commit until the receiver had it, in the order
 * of their commits.
 */
async function timeDeliveries(
  stage: Stage,
  {
    webhooks,
    receiver,
    count,
  }: { webhooks: Awaited<ReturnType<Stage["open"]>>; receiver: Receiver; count: number },
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const before = receiver.received.length;
    await addAll(stage.db, webhooks, [stage.delivery(`${receiver.url}/good`)]);
    const committedMs = systemClock.monotonicMs();
    const received = await until("it has arrived", () => receiver.received[before]);
    times.push(received.atMs - committedMs);
  }
  return times;
}

const kinds = drawCases(["dead", "silent", "silent, with as many paths,"], {
  what: "receivers",
  max: 1,
});

for (const kind of kinds) {
  test(`a receiver that is ${kind} with 10,000 deliveries waiting does not slow others`, async (t) => {
    const stage = await webhookStage(t);
    const bad = await startReceiver(t);
    const good = await startReceiver(t);
    const webhooks = await stage.open({ timeoutMs });
    bad.answer = kind === "dead" ? answerWith(503) : () => undefined;
    const isScattered = kind === "silent, with as many paths,";
    await addBacklog(stage, webhooks, (index) => `${bad.url}/bad${isScattered ? index : ""}`);
    await until("the bad one was tried", async () => {
      const tried = stage.db.selectFrom("webhook_attempts").select("number").limit(1);
      return (await tried.executeTakeFirst()) !== undefined;
    });
    const times = (await timeDeliveries(stage, { webhooks, receiver: good, count: 100 })).toSorted(
      (a, b) => a - b,
    );
    const median = times[50] ?? 0;
    const nearlyWorst = times[95] ?? 0;
    t.diagnostic(`median ${median.toFixed(1)} ms, 95th of 100 ${nearlyWorst.toFixed(1)} ms`);
    assert.ok(nearlyWorst < timeoutMs, `deliveries to another receiver took ${nearlyWorst} ms`);
    const others = await addAll(
      stage.db,
      webhooks,
      Array.from({ length: 500 }, () => stage.delivery(`${good.url}/many`)),
    );
    assert.equal(others.length, 500);
    await until(
      "500 more have arrived",
      async () => (await countStates(stage.db))["delivered"] === 600,
    );
    bad.atOnceMax = 0;
    const before = bad.received.length;
    await until("the bad one is tried still", () => bad.received.length > before, {
      deadlineMs: 60_000,
    });
    assert.ok(bad.atOnceMax <= 1, `${bad.atOnceMax} at a time went to a receiver that fails`);
  });
}

test("a receiver that comes back gets all that waited", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  receiver.answer = answerWith(500);
  const count = 500;
  await addAll(
    stage.db,
    webhooks,
    Array.from({ length: count }, () => stage.delivery(`${receiver.url}/hook`)),
  );
  await until("it was tried", () => receiver.received.length >= 10);
  receiver.answer = answerWith(200);
  await until(
    "all have arrived",
    async () => {
      await stage.makeDue();
      return (await countStates(stage.db))["delivered"] === count;
    },
    { deadlineMs: 30_000 },
  );
  const ids = new Set(receiver.received.map(({ headers }) => headers["webhook-id"]));
  assert.equal(ids.size, count);
});

test("many receivers share the places, and no more deliveries are under way than allowed", async (t) => {
  const stage = await webhookStage(t);
  const atOnce = 16;
  const receivers = await Promise.all(Array.from({ length: 20 }, () => startReceiver(t)));
  const webhooks = await stage.open({ atOnce });
  let under = 0;
  let underMax = 0;
  for (const receiver of receivers) {
    receiver.answer = (response) => {
      underMax = Math.max(underMax, ++under);
      systemClock.after(5, () => {
        under--;
        response.writeHead(200).end();
      });
    };
  }
  const deliveries = receivers.flatMap(({ url }) =>
    Array.from({ length: 30 }, () => stage.delivery(`${url}/hook`)),
  );
  await addAll(stage.db, webhooks, deliveries);
  await until(
    "all have arrived",
    async () => (await countStates(stage.db))["delivered"] === deliveries.length,
    {
      deadlineMs: 30_000,
    },
  );
  assert.ok(underMax <= atOnce, `${underMax} were under way`);
  assert.ok(
    receivers.every(({ received }) => received.length === 30),
    "each arrived once",
  );
});

for (const how of ["told of", "found by a survey"]) {
  test(`silent receivers of one owner's projects leave places to others: deliveries ${how}`, async (t) => {
    const stage = await webhookStage(t);
    const { db, ownerId } = stage;
    const atOnce = 16;
    const silent = await startReceiver(t);
    const good = await startReceiver(t);
    silent.answer = () => undefined;
    const webhooks = await stage.open({ atOnce, timeoutMs: 120_000 });
    const mine = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        createProject(db, { name: `mine ${index}`, ownerId, by: byPlatform }),
      ),
    );
    const other = await makePerson(db, { email: "other@example.test", name: "Other" });
    const theirs = await createProject(db, { name: "theirs", ownerId: other, by: byPlatform });
    const add = async (url: string, projectIds: readonly ProjectId[]): Promise<void> => {
      const deliveries = projectIds.map((projectId) => stage.delivery(url, { projectId }));
      const added = await db.transaction().execute((tx) => webhooks.outbox.add(tx, deliveries));
      if (how === "told of") webhooks.outbox.committed(added);
    };
    await add(`${silent.url}/hook`, mine);
    await until("the owner has its share", () => silent.received.length >= 6);
    await add(`${good.url}/hook`, [theirs]);
    await until("the other one's has arrived", () => good.received.length === 1);
    assert.equal(silent.received.length, 6);
  });
}

test("large bodies that wait are not all held in memory at the same time", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open({ bytesMax: 1_000_000 });
  const body = Buffer.alloc(100_000, "x");
  const huge = Buffer.alloc(2_000_000, "y");
  const release: (() => void)[] = [];
  receiver.answer = (response) => void release.push(() => response.writeHead(200).end());
  const deliveries = Array.from({ length: 40 }, () =>
    stage.delivery(`${receiver.url}/hook`, { body }),
  );
  await addAll(stage.db, webhooks, deliveries);
  await addAll(stage.db, webhooks, [stage.delivery(`${receiver.url}/hook`, { body: huge })]);
  await until("some wait for the receiver's answer", () => release.length >= 8);
  let underWayMax = 0;
  await until("all have arrived, the one that is larger than the bound too", async () => {
    underWayMax = Math.max(underWayMax, webhooks.underWay);
    for (const answer of release.splice(0)) answer();
    return (await countStates(stage.db))["delivered"] === 41;
  });
  assert.ok(underWayMax <= 11, `${underWayMax} bodies of 100 kB were held`);
});
