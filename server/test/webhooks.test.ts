// Webhooks on a real database and real receivers: what arrives, what is tried again, what is
// written down.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { sql } from "kysely";
import { systemClock, type Clock } from "#lib/clock.ts";
import { createLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { callerSignature } from "#webhooks/sign.ts";
import { asOwner } from "#test/support/as-owner.ts";
import "#test/support/leftovers.ts";
import { byPlatform } from "#test/support/accounts.ts";
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
} from "./webhooks-stage.ts";

test("an answer arrives as the caller got it: bytes, content type, status, run, and the caller's signature", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const body = randomBytes(100_000);
  const delivery = stage.delivery(`${receiver.url}/hook?job=7`, {
    body,
    bodyBytes: body.length,
    contentType: "image/png",
    statusCode: 422,
    secret: new Secret("the caller's"),
  });
  const [added] = await addAll(stage.db, webhooks, [delivery]);
  assert.ok(added);
  await deliveryOnce(
    webhooks,
    { projectId: stage.projectId, id: added.id },
    ({ state }) => state === "delivered",
  );
  assert.equal(receiver.received.length, 1);
  const [received] = receiver.received;
  assert.ok(received !== undefined && received.body.equals(body));
  assert.equal(received.path, "/hook?job=7");
  const { headers } = received;
  assert.equal(headers["content-type"], "image/png");
  assert.equal(headers["slipway-status-code"], "422");
  assert.equal(headers["x-request-id"], delivery.runId);
  assert.equal(headers["webhook-id"], added.id);
  assert.match(
    String(headers["webhook-signature"]),
    /^v1,[A-Za-z0-9+/]{43}=$/,
    "though nobody has made a secret",
  );
  const seconds = Number(headers["x-cerebrium-webhook-timestamp"]);
  const message = { runId: delivery.runId, body };
  assert.equal(
    headers["x-cerebrium-webhook-signature"],
    callerSignature("the caller's", message, seconds),
  );
});

test("bodies, content types, paths and secrets of all kinds arrive as they were", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open({ atOnce: 1 });
  const bodies = [
    Buffer.alloc(0),
    randomBytes(1000),
    Buffer.from('{"a":"\\\\ \\" \'\\u0000"}'),
    randomBytes(200_000),
  ];
  const types = ['multipart/mixed; boundary="a\\b{},"', "NULL", "text/plain; x='\u00fc'", null];
  const secret = new Secret("two words, 'quoted' \\ {}");
  const deliveries = bodies.map((body, index) =>
    stage.delivery(`${receiver.url}/%7B'${index}?a=b%5C,{}&c=%22`, {
      body,
      secret,
      contentType: types[index] ?? null,
    }),
  );
  await addAll(stage.db, webhooks, deliveries);
  await until(
    "all have arrived",
    async () => (await countStates(stage.db))["delivered"] === bodies.length,
  );
  for (const [index, delivery] of deliveries.entries()) {
    const received = receiver.received.find(
      ({ headers }) => headers["x-request-id"] === delivery.runId,
    );
    assert.ok(
      received !== undefined && received.body.equals(delivery.body ?? Buffer.alloc(1)),
      `body ${index}`,
    );
    assert.equal(received.headers["content-type"], types[index] ?? "application/json");
    assert.equal(received.path, new URL(delivery.url).pathname + new URL(delivery.url).search);
    const seconds = Number(received.headers["x-cerebrium-webhook-timestamp"]);
    const message = { runId: delivery.runId, body: received.body };
    assert.equal(
      received.headers["x-cerebrium-webhook-signature"],
      callerSignature(secret.reveal(), message, seconds),
    );
  }
});

test("a plain call's answer is posted in a transaction of its own", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  for (let count = 0; count < 50; count++)
    webhooks.outbox.post(stage.delivery(`${receiver.url}/hook`));
  await until(
    "all have arrived and are written",
    async () => (await countStates(stage.db))["delivered"] === 50,
  );
  assert.equal(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size, 50);
  assert.equal(webhooks.outbox.lostCount, 0);
});

test("what a transaction that is rolled back added is not sent, and takes no place", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open({ atOnce: 1 });
  const doomed = stage.db.transaction().execute(async (tx) => {
    await webhooks.outbox.add(tx, [stage.delivery(`${receiver.url}/doomed`)]);
    throw new Error("rolled back");
  });
  await assert.rejects(doomed, /rolled back/);
  await addAll(stage.db, webhooks, [stage.delivery(`${receiver.url}/fine`)]);
  await until("the other one has arrived", () => receiver.received.length > 0);
  assert.deepEqual(
    receiver.received.map(({ path }) => path),
    ["/fine"],
  );
});

test("a database that breaks all its connections makes nothing arrive twice or get lost", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const answers: (() => void)[] = [];
  receiver.answer = (response) => void answers.push(() => response.writeHead(200).end());
  await addAll(
    stage.db,
    webhooks,
    Array.from({ length: 10 }, () => stage.delivery(`${receiver.url}/hook`)),
  );
  await until("all are under way", () => answers.length === 10);
  const broken = asOwner(stage.db, (tx) =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend'`.execute(tx),
  );
  await assert.rejects(broken, "its own connection breaks too");
  for (const answer of answers) answer();
  await until("all are written", async () => (await countStates(stage.db))["delivered"] === 10);
  assert.equal(receiver.received.length, 10);
});

test("a result that the database refuses for as long as a lease lasts is written in the end, and nothing is sent twice", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  // Pauses are 20 times as short; the lease is as long as ever.
  const sleep: Clock["sleep"] = (ms, signal) => systemClock.sleep(ms / 20, signal);
  const webhooks = await stage.open({ clock: { ...systemClock, sleep } });
  // A sequence counts what is rolled back, too.
  await asOwner(stage.db, async (tx) => {
    await sql`create sequence tries`.execute(tx);
    await sql`grant usage on sequence tries to public`.execute(tx);
    await sql`create function refuse() returns trigger language plpgsql as $$
      begin perform nextval('tries'); raise exception 'refused'; end $$`.execute(tx);
    await sql`create trigger refuse before insert on webhook_attempts execute function refuse()`.execute(
      tx,
    );
  });
  await addAll(stage.db, webhooks, [stage.delivery(`${receiver.url}/hook`)]);
  await until("it was tried for 15 seconds' worth of pauses", async () => {
    const { rows } = await asOwner(stage.db, (tx) =>
      sql<{ tries: number }>`select last_value::integer as tries from tries`.execute(tx),
    );
    return Number(rows[0]?.tries) >= 10;
  });
  await asOwner(stage.db, (tx) => sql`drop trigger refuse on webhook_attempts`.execute(tx));
  await until("it is written", async () => (await countStates(stage.db))["delivered"] === 1);
  assert.equal(receiver.received.length, 1);
});

test("where answers of plain calls fill the memory while they wait to be written, the rest is recorded as failed", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const body = Buffer.alloc(20 * 1024 * 1024);
  // All in one turn of the event loop: nothing is written in between.
  for (let count = 0; count < 8; count++)
    webhooks.outbox.post(stage.delivery(`${receiver.url}/${count}`, { body }));
  await until(
    "three are delivered, the others failed",
    async () => {
      const { delivered, failed } = await countStates(stage.db);
      return delivered === 3 && failed === 5;
    },
    { deadlineMs: 60_000 },
  );
  const { items } = await webhooks.useCases.listDeliveries(stage.projectId, {
    ...firstPage,
    state: "failed",
  });
  assert.match(
    String(items[0]?.reason),
    /20971520 bytes: more than the delivery limit .* or too many long answers arrived at once/,
  );
  assert.equal(webhooks.outbox.lostCount, 0);
});

test("answers of plain calls that too many wait before are counted and logged", async (t) => {
  const stage = await webhookStage(t);
  const lines: string[] = [];
  const log = createLog({
    level: "warn",
    pretty: false,
    to: { write: (line) => void lines.push(line) },
  });
  const webhooks = await stage.open({ log });
  const one = stage.delivery("http://127.0.0.1/", { body: null });
  for (let count = 0; count < 10_005; count++) webhooks.outbox.post({ ...one });
  // The first is being written at once, and does not wait.
  assert.equal(webhooks.outbox.lostCount, 4);
  assert.ok(lines.some((line) => line.includes('"lost":1')));
  await until(
    "the others are written",
    async () => (await countStates(stage.db))["failed"] === 10_001,
    {
      deadlineMs: 60_000,
    },
  );
});

test("a URL that is none fails its delivery alone", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { projectId } = stage;
  const added = await addAll(
    stage.db,
    webhooks,
    ["nonsense", `${receiver.url}/fine`].map((url) => stage.delivery(url)),
  );
  const [bad, good] = added;
  assert.ok(bad && good);
  await deliveryOnce(webhooks, { projectId, id: good.id }, ({ state }) => state === "delivered");
  const { delivery } = await webhooks.useCases.readDelivery(projectId, bad.id);
  assert.deepEqual(
    [delivery.state, delivery.reason],
    ["failed", "Its webhookEndpoint is not a URL."],
  );
});

test("project secrets sign, two of them while one takes over from the other", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { db, projectId } = stage;
  const send = async (): Promise<(typeof receiver.received)[number]> => {
    const before = receiver.received.length;
    await addAll(db, webhooks, [stage.delivery(`${receiver.url}/hook`)]);
    return await until("it has arrived", () => receiver.received[before]);
  };
  const onlyFirst = await send();
  const [first] = await webhooks.useCases.secrets.list(projectId, byPlatform);
  assert.ok(first !== undefined);
  verify(first.secret, onlyFirst);
  const second = await webhooks.useCases.secrets.create(projectId, 1, byPlatform);
  assert.throws(() => verify(second.secret, onlyFirst));
  const signatures = ({ headers }: typeof onlyFirst): number =>
    String(headers["webhook-signature"]).split(" ").length;
  const both = await until("both sign", async () => {
    const received = await send();
    return signatures(received) === 2 ? received : null;
  });
  verify(first.secret, both);
  verify(second.secret, both);
  const third = await webhooks.useCases.secrets.create(projectId, 0, byPlatform);
  const last = await until("only the third signs", async () => {
    const received = await send();
    return signatures(received) === 1 ? received : null;
  });
  verify(third.secret, last);
  assert.throws(() => verify(second.secret, last));
  await webhooks.useCases.secrets.delete(projectId, third.id, byPlatform);
  const [fourth] = await webhooks.useCases.secrets.list(projectId, byPlatform);
  assert.ok(fourth !== undefined && fourth.id !== third.id);
  const replaced = await until("the deleted one no longer signs", async () => {
    const received = await send();
    try {
      verify(third.secret, received);
      return null;
    } catch {
      return received;
    }
  });
  verify(fourth.secret, replaced);
});

test("a failed delivery is tried again under the same id with a new time, and its attempts are kept", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { projectId } = stage;
  const { secret } = await webhooks.useCases.secrets.create(projectId, 24, byPlatform);
  receiver.answer = answerWith(503, `busy ${"x".repeat(5000)}`, { "Retry-After": "7200" });
  const beganMs = Date.now();
  const [added] = await addAll(stage.db, webhooks, [stage.delivery(`${receiver.url}/hook`)]);
  assert.ok(added);
  const place = { projectId, id: added.id };
  const waiting = await deliveryOnce(webhooks, place, ({ attempts }) => attempts === 1);
  assert.equal(waiting.state, "pending");
  const answeredMs = Number(waiting.dueAt) - 7_200_000;
  assert.ok(answeredMs >= beganMs && answeredMs <= Date.now(), "Retry-After is honoured");
  receiver.answer = answerWith(200, "thanks");
  await stage.makeDue();
  const done = await deliveryOnce(webhooks, place, ({ state }) => state === "delivered");
  assert.deepEqual([done.attempts, done.reason, done.dueAt], [2, null, null]);
  const [first, second] = receiver.received;
  assert.ok(first && second);
  assert.equal(first.headers["webhook-id"], second.headers["webhook-id"]);
  verify(secret, second);
  const { attempts } = await webhooks.useCases.readDelivery(projectId, added.id);
  assert.deepEqual(
    attempts.map(({ number, statusCode, reason, answer }) => [
      number,
      statusCode,
      reason,
      String(answer).slice(0, 6),
    ]),
    [
      [2, 200, null, "thanks"],
      [1, 503, "The receiver answered 503.", "busy x"],
    ],
  );
  assert.equal(String(attempts[1]?.answer).length, 1024);
  assert.ok(
    attempts.every(
      ({ durationMs, startedAt }) => durationMs >= 0 && Number(startedAt) <= Date.now(),
    ),
  );
});

test("what is not answered, refused or redirected says so, and 410 ends the delivery", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const other = await startReceiver(t);
  // All but the silent one answer at once, and on a busy machine at once may be a second.
  const webhooks = await stage.open({ timeoutMs: 3000 });
  receiver.answer = (response, { path }) => {
    if (path === "/gone") return void response.writeHead(410).end();
    if (path === "/moved")
      return void response.writeHead(307, { Location: `${other.url}/stolen` }).end();
    if (path === "/broken") return void response.socket?.destroy();
    return undefined;
  };
  const urls = [
    ...["/gone", "/moved", "/broken", "/silent"].map((path) => receiver.url + path),
    "http://10.1.2.3/private",
  ];
  const added = await addAll(
    stage.db,
    webhooks,
    urls.map((url) => stage.delivery(url)),
  );
  const results = await Promise.all(
    added.map(({ id }) =>
      deliveryOnce(webhooks, { projectId: stage.projectId, id }, ({ attempts }) => attempts === 1),
    ),
  );
  const states = results.map(({ state }) => state);
  assert.deepEqual(states, ["failed", "pending", "pending", "pending", "pending"]);
  const [gone, moved, ...rest] = results.map(({ reason }) => reason ?? "");
  assert.match(gone ?? "", /410/);
  assert.match(moved ?? "", /307; redirects are not followed/);
  for (const reason of rest) assert.ok(reason.length > 5, `a reason says what happened: ${reason}`);
  assert.equal(other.received.length, 0);
});

test("after its last attempt a delivery has failed; a replay begins the schedule anew and goes on counting", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { projectId } = stage;
  await webhooks.useCases.setSchedule(projectId, "short", byPlatform);
  assert.equal(await webhooks.useCases.readSchedule(projectId), "short");
  // The fifth attempt is the second since the replay: without a schedule begun anew there would be
  // none.
  receiver.answer = (response) =>
    response.writeHead(receiver.received.length < 5 ? 404 : 200).end();
  const [added] = await addAll(stage.db, webhooks, [stage.delivery(`${receiver.url}/hook`)]);
  assert.ok(added);
  const place = { projectId, id: added.id };
  for (const count of [1, 2]) {
    // On a slow machine the next attempt comes before it is seen that this one is over.
    const waiting = await deliveryOnce(webhooks, place, ({ attempts }) => attempts >= count);
    assert.ok(Number(waiting.dueAt) - Date.now() <= 5000);
    await stage.makeDue();
  }
  const failed = await deliveryOnce(webhooks, place, ({ state }) => state === "failed");
  assert.equal(failed.attempts, 3);
  assert.match(failed.reason ?? "", /404.*attempt 3, the last one/);
  assert.ok(failed.isReplayable);

  const replayed = await webhooks.useCases.replay(projectId, added.id, byPlatform);
  assert.deepEqual([replayed.state, replayed.attempts], ["pending", 3]);
  await deliveryOnce(webhooks, place, ({ attempts }) => attempts >= 4);
  await stage.makeDue();
  const delivered = await deliveryOnce(webhooks, place, ({ state }) => state !== "pending");
  assert.deepEqual([delivered.state, delivered.attempts], ["delivered", 5]);
  assert.equal(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size, 1);
});

test("an answer that is too long is recorded as failed and not sent", async (t) => {
  const stage = await webhookStage(t);
  const receiver = await startReceiver(t);
  const webhooks = await stage.open();
  const { projectId } = stage;
  const secret = new Secret("the caller's");
  const long = stage.delivery(`${receiver.url}/long`, {
    secret,
    body: null,
    bodyBytes: 99_000_000,
  });
  const added = await addAll(stage.db, webhooks, [long, stage.delivery(`${receiver.url}/short`)]);
  const [first, second] = added;
  assert.ok(first && second);
  await deliveryOnce(webhooks, { projectId, id: second.id }, ({ state }) => state === "delivered");
  const { delivery } = await webhooks.useCases.readDelivery(projectId, first.id);
  assert.deepEqual(
    [delivery.state, delivery.attempts, delivery.isReplayable],
    ["failed", 0, false],
  );
  assert.match(delivery.reason ?? "", /99000000 bytes/);
  const { sealed } = await stage.db
    .selectFrom("webhook_deliveries")
    .select("secret_sealed as sealed")
    .where("id", "=", first.id)
    .executeTakeFirstOrThrow();
  assert.equal(sealed, null, "the caller's secret is not kept, since nothing will be signed");
  await assert.rejects(webhooks.useCases.replay(projectId, first.id, byPlatform), {
    name: "Fault",
    code: "conflict",
  });
  assert.equal(receiver.received.length, 1);
});
