// What a project's people do with webhooks: lists and pages, replays, paused endpoints, secrets;
// and what is recorded of it.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "kysely";
import type { By } from "#audit/record.ts";
import { systemClock } from "#lib/clock.ts";
import type { DeliveryId, ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import { removeOld } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { sealedColumns } from "#platform-sealed.ts";
import { resealOld, sealingKeyIds } from "#store/sealed-store.ts";
import type { Page } from "#lib/page-token.ts";
import { endpointWatch } from "#webhooks/endpoint-watch.ts";
import { endpointOf } from "#webhooks/endpoint.ts";
import { webhookRetention } from "#webhooks/retention.ts";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";
import {
  addAll,
  answerWith,
  countStates,
  deliveryOnce,
  firstPage,
  startReceiver,
  verify,
  webhookStage,
  type Stage,
} from "./webhooks-stage.ts";

const by: By = { actor: { type: "person", id: "someone", name: "Someone" } };
const stranger = "p-99999999" as ProjectId;

/** Actions of webhooks that were recorded, oldest first. */
async function recorded(
  db: Db,
): Promise<{ action: string; actor: string; resource: string | null; text: string }[]> {
  const rows = await db
    .selectFrom("audit_log")
    .selectAll()
    .where("action", "like", "webhook%")
    .orderBy("id")
    .execute();
  return rows.map((row) => ({
    action: row.action,
    actor: row.actor_type,
    resource: row.resource_type,
    text: JSON.stringify(row),
  }));
}

async function allPages<Item>(
  ask: (nextToken: string | null) => Promise<Page<Item>>,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let token: string | null = null, pages = 0; pages < 100; pages++) {
    const page = await ask(token);
    items.push(...page.items);
    if (page.nextToken === null) return items;
    token = page.nextToken;
  }
  throw new Error("the pages do not end");
}

/** How many endpoints are paused after a turn of the watch. */
async function pausedAfterWatch({ db }: Stage): Promise<number> {
  const watch = endpointWatch({ db, clock: systemClock, log: silentLog, onStep: () => undefined });
  watch.start();
  await watch.stop();
  const paused = db.selectFrom("webhook_endpoints").where("paused_at", "is not", null);
  return (await paused.select("id").execute()).length;
}

test("deliveries are listed newest first, page by page, while new ones come in", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  receiver.answer = (response, { path }) =>
    void response.writeHead(path.startsWith("/bad") ? 400 : 200).end();
  const ids: DeliveryId[] = [];
  for (let count = 0; count < 25; count++) {
    const path = count % 5 === 0 ? "/bad" : "/good";
    const [added] = await addAll(db, webhooks, [
      stage.delivery(`${receiver.url}${path}?n=${count}`),
    ]);
    ids.push(added?.id as DeliveryId);
  }
  await until("all have ended", async () => (await countStates(db))["pending"] === undefined);
  const { useCases } = webhooks;
  const listed = await allPages(async (nextToken) => {
    const page = await useCases.listDeliveries(projectId, { pageSize: 7, nextToken });
    if (nextToken === null) await addAll(db, webhooks, [stage.delivery(`${receiver.url}/late`)]);
    return page;
  });
  assert.deepEqual(
    listed.map(({ id }) => id),
    ids.toReversed(),
  );
  const failed = await allPages((nextToken) =>
    useCases.listDeliveries(projectId, { state: "failed", pageSize: 2, nextToken }),
  );
  assert.equal(failed.length, 5);
  assert.ok(
    failed.every(
      ({ state, url, isReplayable }) => state === "failed" && url.includes("/bad") && isReplayable,
    ),
  );
  const { id: endpointId } = endpointOf(projectId, `${receiver.url}/bad`);
  assert.equal(
    (await useCases.listDeliveries(projectId, { ...firstPage, endpointId })).items.length,
    5,
  );
  const [one] = failed;
  assert.ok(one);
  assert.deepEqual(
    (await useCases.listDeliveries(projectId, { ...firstPage, runId: one.runId })).items,
    [one],
  );
  assert.deepEqual((await useCases.listDeliveries(stranger, firstPage)).items, []);
  await assert.rejects(useCases.readDelivery(stranger, one.id), { code: "not_found" });
  await assert.rejects(useCases.replay(stranger, one.id, by), { code: "not_found" });
  await assert.rejects(useCases.readDelivery(projectId, "x' or 1" as DeliveryId), {
    code: "not_found",
  });

  const { nextToken } = await useCases.listDeliveries(projectId, { pageSize: 2, nextToken: null });
  const token = nextToken ?? "";
  for (const [query, field] of [
    [{ nextToken: "nonsense" }, /nextToken/],
    [{ nextToken: token, state: "failed" }, /nextToken/],
  ] as const) {
    await assert.rejects(useCases.listDeliveries(projectId, { ...firstPage, ...query }), {
      code: "invalid",
      message: field,
    });
  }
  await assert.rejects(useCases.listDeliveries(stranger, { ...firstPage, nextToken: token }), {
    code: "invalid",
  });
});

test("a range of failed deliveries is sent again, the others are left alone, and it is recorded", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  receiver.answer = answerWith(400);
  const count = 30;
  const bad = await addAll(
    db,
    webhooks,
    Array.from({ length: count }, () => stage.delivery(`${receiver.url}/hook`)),
  );
  await until("all have failed", async () => (await countStates(db))["failed"] === count);
  receiver.answer = answerWith(200);
  await addAll(db, webhooks, [stage.delivery(`${receiver.url}/fine`)]);
  await until("that one is delivered", async () => (await countStates(db))["delivered"] === 1);
  await sql`update webhook_deliveries set created_at = created_at - interval '1 day'
             where id in (select id from webhook_deliveries where state = 'failed' order by number limit 10)`.execute(
    db,
  );
  const now = Date.now();
  const hourMs = 3_600_000;
  const range = {
    from: new Date(now - 48 * hourMs),
    to: new Date(now - 12 * hourMs),
    state: "failed",
  } as const;
  assert.deepEqual(await webhooks.useCases.replayRange(projectId, range, by), {
    replayed: 10,
    hasMore: false,
  });
  await until("ten more are delivered", async () => (await countStates(db))["delivered"] === 11);
  assert.deepEqual(await webhooks.useCases.replayRange(projectId, range, by), {
    replayed: 0,
    hasMore: false,
  });
  const first = bad[0];
  assert.ok(first);
  const { delivery, attempts } = await webhooks.useCases.readDelivery(projectId, first.id);
  assert.deepEqual(
    [delivery.state, attempts.map(({ statusCode }) => statusCode)],
    ["delivered", [200, 400]],
  );
  const turned = webhooks.useCases.replayRange(
    projectId,
    { ...range, from: range.to, to: range.from },
    by,
  );
  await assert.rejects(turned, { code: "invalid", message: /from must be/ });
  await db.insertInto("projects").values({ id: stranger, name: "another" }).execute();
  const all = { ...range, from: new Date(0), to: new Date(now + hourMs) };
  assert.deepEqual(await webhooks.useCases.replayRange(stranger, all, by), {
    replayed: 0,
    hasMore: false,
  });
  const entry = (await recorded(db)).find(({ action }) => action === "webhook_deliveries.replay");
  assert.match(entry?.text ?? "", /"count":\{"new":10\}/);
});

test("an endpoint that has only failed for five days is paused: all of it waits, the owner sees it, resuming sends it", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  const url = `${receiver.url}/dead?token=1`;
  receiver.answer = answerWith(500, "broken");
  const [old] = await addAll(db, webhooks, [stage.delivery(url)]);
  assert.ok(old);
  await deliveryOnce(webhooks, { projectId, id: old.id }, ({ attempts }) => attempts === 1);
  const { id } = endpointOf(projectId, url);
  const failFrom = async (days: number): Promise<void> => {
    await sql`update webhook_endpoints set failing_since = clock_timestamp() - ${days} * interval '1 day'`.execute(
      db,
    );
  };
  await failFrom(4.9);
  assert.equal(await pausedAfterWatch(stage), 0);
  await failFrom(5.1);
  assert.equal(await pausedAfterWatch(stage), 1);
  assert.equal(await pausedAfterWatch(stage), 1, "once is enough");

  const before = receiver.received.length;
  receiver.answer = answerWith(200);
  const [fresh] = await addAll(db, webhooks, [stage.delivery(url)]);
  assert.ok(fresh);
  await stage.makeDue();
  const good = await startReceiver(t);
  await addAll(db, webhooks, [stage.delivery(`${good.url}/other`)]);
  await until("another endpoint goes on", () => good.received.length === 1);
  const [endpoint] = (await webhooks.useCases.listEndpoints(projectId, firstPage)).items.filter(
    (item) => item.id === id,
  );
  assert.ok(endpoint?.pausedAt instanceof Date && endpoint.failingSince instanceof Date);
  assert.deepEqual([endpoint.url, endpoint.waiting], [`${receiver.url}/dead`, 2]);
  assert.match(endpoint.lastFailure ?? "", /500/);
  const { delivery } = await webhooks.useCases.readDelivery(projectId, fresh.id);
  assert.deepEqual([delivery.state, delivery.dueAt], ["pending", null]);
  assert.equal(receiver.received.length, before, "nothing is sent while it is paused");

  await assert.rejects(webhooks.useCases.resumeEndpoint(stranger, id, by), { code: "not_found" });
  const resumed = await webhooks.useCases.resumeEndpoint(projectId, id, by);
  assert.deepEqual([resumed.pausedAt, resumed.failingSince], [null, null]);
  for (const { id: one } of [old, fresh]) {
    await deliveryOnce(webhooks, { projectId, id: one }, ({ state }) => state === "delivered");
  }
  await assert.rejects(webhooks.useCases.resumeEndpoint(projectId, id, by), { code: "conflict" });
  await webhooks.useCases.pauseEndpoint(projectId, id, by);
  await assert.rejects(webhooks.useCases.pauseEndpoint(projectId, id, by), { code: "conflict" });
  const entries = (await recorded(db)).filter(({ action }) =>
    action.startsWith("webhook_endpoints."),
  );
  assert.deepEqual(
    entries.map(({ action, actor }) => [action, actor]),
    [
      ["webhook_endpoints.pause", "platform"],
      ["webhook_endpoints.resume", "person"],
      ["webhook_endpoints.pause", "person"],
    ],
  );
});

test("a success in between, or a single failure long ago, pauses nothing", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  const url = `${receiver.url}/hook`;
  const sendOne = async (): Promise<void> => {
    const [added] = await addAll(db, webhooks, [stage.delivery(url)]);
    assert.ok(added);
    await deliveryOnce(webhooks, { projectId, id: added.id }, ({ attempts }) => attempts === 1);
  };
  receiver.answer = answerWith(400);
  await sendOne();
  await sql`update webhook_endpoints set failing_since = failing_since - interval '9 days',
                   last_failure_at = last_failure_at - interval '9 days'`.execute(db);
  assert.equal(await pausedAfterWatch(stage), 0, "it failed once, nine days ago");
  receiver.answer = answerWith(200);
  await sendOne();
  receiver.answer = answerWith(400);
  const beganMs = Date.now();
  await sendOne();
  assert.equal(await pausedAfterWatch(stage), 0);
  const [endpoint] = (await webhooks.useCases.listEndpoints(projectId, firstPage)).items;
  assert.ok(Number(endpoint?.failingSince) >= beganMs, "it fails since the last one");
  assert.ok(endpoint?.lastSuccessAt instanceof Date);
});

test("endpoints are listed page by page, each once however many deliveries it has", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  // All of one transaction, so that their times are nearly the same.
  const deliveries = Array.from({ length: 60 }, (_, index) =>
    stage.delivery(`${receiver.url}/${index % 12}?${index}`),
  );
  await addAll(db, webhooks, deliveries);
  const listed = await allPages((nextToken) =>
    webhooks.useCases.listEndpoints(projectId, { pageSize: 5, nextToken }),
  );
  assert.equal(listed.length, 12);
  assert.equal(new Set(listed.map(({ url }) => url)).size, 12);
});

test("a project has a secret from the beginning; secrets are sealed at rest, not recorded, and at most two are valid", async (t) => {
  const stage = await webhookStage(t);
  const { useCases } = await stage.open();
  const { db, projectId } = stage;
  const [own, ...others] = await useCases.secrets.list(projectId, by);
  assert.ok(own !== undefined && others.length === 0 && own.expiresAt === null);
  const made = [own];
  const beganMs = Date.now();
  for (let count = 0; count < 4; count++)
    made.push(await useCases.secrets.create(projectId, 24, by));
  const listed = await useCases.secrets.list(projectId, by);
  assert.deepEqual(
    listed.map(({ id }) => id),
    [made[4]?.id, made[3]?.id],
  );
  assert.equal(listed[0]?.expiresAt, null);
  const madeMs = Number(listed[1]?.expiresAt) - 24 * 3_600_000;
  assert.ok(madeMs >= beganMs && madeMs <= Date.now(), "a day");
  const everything = JSON.stringify([
    await db.selectFrom("webhook_secrets").selectAll().execute(),
    await recorded(db),
    listed,
    made,
  ]);
  for (const { secret } of made) {
    assert.match(secret.reveal(), /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.ok(!everything.includes(secret.reveal().slice(6)), "the value is nowhere to be read");
  }
  assert.deepEqual(
    listed.map(({ secret }) => secret.reveal()),
    [made[4]?.secret.reveal(), made[3]?.secret.reveal()],
  );
  await assert.rejects(useCases.secrets.delete(stranger, made[4]?.id ?? "", by), {
    code: "no_such_project",
  });
  await assert.rejects(useCases.secrets.delete(projectId, randomUUID(), by), { code: "not_found" });
  await assert.rejects(useCases.secrets.create(stranger, 24, by), { code: "no_such_project" });
  const actions = (await recorded(db)).map(({ action }) => action);
  const create = "webhook_secrets.create";
  const read = "webhook_secrets.read";
  assert.deepEqual(actions, [create, read, create, create, create, create, read]);
});

test("another secret takes the place of the last one, once, however many look; a deleted project has none", async (t) => {
  const stage = await webhookStage(t);
  const { useCases } = await stage.open();
  const { db, projectId } = stage;
  const [own] = await useCases.secrets.list(projectId, by);
  await useCases.secrets.delete(projectId, own?.id ?? "", by);
  const lists = await Promise.all(
    Array.from({ length: 8 }, () => useCases.secrets.list(projectId, by)),
  );
  const [next] = lists[0] ?? [];
  assert.ok(
    next !== undefined && next.id !== own?.id && next.secret.reveal() !== own?.secret.reveal(),
  );
  for (const list of lists)
    assert.deepEqual(
      list.map(({ id }) => id),
      [next.id],
    );
  await useCases.secrets.create(projectId, 1, by);
  const [newest] = await useCases.secrets.list(projectId, by);
  await useCases.secrets.delete(projectId, newest?.id ?? "", by);
  const left = await useCases.secrets.list(projectId, by);
  assert.deepEqual(
    [left[0]?.expiresAt, left[1]?.id],
    [null, next.id],
    "one that ends is no reason to have none without an end",
  );
  await db.deleteFrom("webhook_secrets").execute();
  await db
    .updateTable("projects")
    .set({ deleted_at: new Date() })
    .where("id", "=", projectId)
    .execute();
  await assert.rejects(useCases.secrets.list(projectId, by), { code: "no_such_project" });
  assert.deepEqual(await db.selectFrom("webhook_secrets").selectAll().execute(), []);
});

test("two people who make a secret at once both get one that signs", async (t) => {
  const stage = await webhookStage(t);
  const { useCases } = await stage.open();
  const made = await Promise.all(
    [1, 2].map(() => useCases.secrets.create(stage.projectId, 24, by)),
  );
  const listed = await useCases.secrets.list(stage.projectId, by);
  assert.deepEqual(listed.map(({ id }) => id).toSorted(), made.map(({ id }) => id).toSorted());
});

test("old bodies, deliveries and endpoints go, what waits stays, and what waits too long has failed", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  const paths = ["ancient", "old", "fresh", "waiting", "stuck", "unsent"] as const;
  const added = await addAll(
    db,
    webhooks,
    paths.map((path) => stage.delivery(`${receiver.url}/${path}`)),
  );
  await until(
    "all have arrived",
    async () => (await countStates(db))["delivered"] === paths.length,
  );
  await webhooks.stop();
  const idOf = Object.fromEntries(
    paths.map((path, index) => [path, added[index]?.id as DeliveryId]),
  );
  const age = async (path: string, days: number, isPending: boolean): Promise<void> => {
    const at = sql`clock_timestamp() - ${days} * interval '1 day'`;
    await sql`update webhook_deliveries set created_at = ${at}, due_at = ${at},
                     ended_at = case when ${isPending}::boolean then null else ${at} end,
                     state = case when ${isPending}::boolean then 'pending' else state end
               where id = ${idOf[path]}`.execute(db);
    await sql`update webhook_endpoints set created_at = ${at},
                     paused_at = case when ${isPending}::boolean then clock_timestamp() end
               where url like ${`%/${path}`}`.execute(db);
  };
  await age("ancient", 31, false);
  await age("old", 8, false);
  await age("waiting", 20, true);
  await age("stuck", 31, true);
  // The platform was off, so nobody has sent it: its endpoint is not paused.
  await age("unsent", 31, true);
  await sql`update webhook_endpoints set paused_at = null where url like '%/unsent'`.execute(db);
  await removeOld(webhookRetention({ db, days: 30, bodyDays: 7 }), new AbortController().signal);
  const { items } = await webhooks.useCases.listDeliveries(projectId, firstPage);
  const seen = Object.fromEntries(
    items.map(({ url, state, isReplayable }) => [new URL(url).pathname, [state, isReplayable]]),
  );
  assert.deepEqual(seen, {
    "/old": ["delivered", false],
    "/fresh": ["delivered", true],
    "/waiting": ["pending", false],
    "/stuck": ["failed", true],
    "/unsent": ["pending", false],
  });
  await assert.rejects(
    webhooks.useCases.replay(projectId, idOf["old"] as DeliveryId, by),
    /its body is no longer kept/,
  );
  const urls = (await webhooks.useCases.listEndpoints(projectId, firstPage)).items.map(
    ({ url }) => new URL(url).pathname,
  );
  assert.deepEqual(urls.toSorted(), ["/fresh", "/old", "/stuck", "/unsent", "/waiting"]);
  const attempts = await db.selectFrom("webhook_attempts").select("delivery_id").execute();
  assert.equal(attempts.length, 5, "attempts go with their delivery");
});

test("after a start with a new key the secrets of projects and callers open with that key alone", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const { db, projectId } = stage;
  const first = await stage.open();
  const { secret } = await first.useCases.secrets.create(projectId, 24, by);
  receiver.answer = answerWith(500);
  await addAll(db, first, [
    stage.delivery(`${receiver.url}/hook`, { secret: new Secret("the caller's") }),
  ]);
  await until("it was tried", async () => receiver.received.length > 0);
  await first.stop();

  const newKey = randomBytes(32).toString("hex");
  const both = new Sealer([newKey, "11".repeat(32)]);
  assert.ok((await resealOld(db, both, sealedColumns)) >= 2);
  assert.equal(await resealOld(db, both, sealedColumns), 0);
  const only = new Sealer([newKey]);
  assert.deepEqual(await sealingKeyIds(db, sealedColumns), only.keyIds());

  receiver.answer = answerWith(200);
  await stage.makeDue();
  await stage.open({ sealer: only });
  const last = await until("it has arrived", () => receiver.received[1]);
  verify(secret, last);
  assert.match(String(last.headers["x-cerebrium-webhook-signature"]), /^v1,[0-9a-f]{64}$/);
});
