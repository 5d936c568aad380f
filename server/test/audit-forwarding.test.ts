// Entries of the audit log that are sent on: to real receivers, in order, signed, none of them
// lost, whoever is away or killed meanwhile.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { Webhook } from "standardwebhooks";
import { auditForwarding, newAuditForwarding } from "@slipway/contract/audit-routes.ts";
import { auditRetention } from "#audit/chain/audit-retention.ts";
import type { EntryLine } from "#audit/export/export-format.ts";
import { Forwarder, type ForwarderOptions } from "#audit/forwarding/forwarder.ts";
import { record } from "#audit/record.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { sealedColumns } from "#platform-sealed.ts";
import { resealOld, sealingKeyIds } from "#store/sealed-store.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { readWebhookSecret } from "#lib/webhook-signature.ts";
import { removeOld } from "#lib/retention.ts";
import "#test/support/leftovers.ts";
import { byPlatform } from "./support/accounts.ts";
import { testSigner } from "./support/audit-chain.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";
import { until } from "./support/until.ts";
import { answerWith, startReceiver, type Received, type Receiver } from "./webhooks-stage.ts";

type Stage = { readonly api: ApiUnderTest; readonly receiver: Receiver; readonly path: string };

async function stage(t: TestContext): Promise<Stage> {
  const api = await startManagementApi(t);
  const receiver = await startReceiver(t);
  return { api, receiver, path: `/v2/projects/${api.projectId}/audit-log/forwarding` };
}

/** Calls this machine only. */
function outwardClient(): { readonly client: OutwardClient; readonly close: () => void } {
  const guard = new OutwardGuard({ allow: ["127.0.0.0/8"] });
  const client = new OutwardClient({ clock: systemClock, userAgent: "Slipway", guard });
  return { client, close: () => client.close() };
}

/** One more platform that sends; stopped after the test, or by what is returned. */
async function open(
  t: TestContext,
  { api }: Stage,
  changes: Partial<ForwarderOptions> = {},
): Promise<() => Promise<void>> {
  const { db, sealer, notifications } = api;
  const { client, close } = outwardClient();
  const forwarder = new Forwarder({
    db,
    sealer,
    notifications,
    client,
    clock: systemClock,
    log: silentLog,
    platform: null,
    intervalMs: 50,
    instanceId: randomUUID(),
    ...changes,
  });
  await forwarder.start();
  const stop = async (): Promise<void> => {
    const stopped = forwarder.stop();
    close();
    await stopped;
  };
  t.after(stop);
  return stop;
}

async function add(
  { api }: Stage,
  count: number,
  projectId: ProjectId | null = api.projectId,
): Promise<void> {
  for (let index = 0; index < count; index++) {
    await record(api.db, {
      projectId,
      action: "app.update",
      by: byPlatform,
      changes: { index: { new: index } },
    });
  }
}

async function set(
  { api, receiver, path }: Stage,
  body: Record<string, unknown> = {},
): Promise<Json> {
  const answer = await api.call("PUT", path, {
    body: { url: `${receiver.url}/hook?key=1`, ...body },
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return newAuditForwarding.parse(answer.body);
}

async function state({ api, path }: Stage): Promise<ReturnType<typeof auditForwarding.parse>> {
  const answer = await api.call("GET", path);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return auditForwarding.parse(answer.body);
}

const batchOf = ({ body }: Received): { project: string | null; entries: EntryLine[] } =>
  JSON.parse(body.toString()).data;
const linesOf = (received: readonly Received[]): EntryLine[] =>
  received.flatMap((one) => batchOf(one).entries);

/** Lines of an export of everything, which is an entry itself: asked for last. */
async function chain({ api }: Stage): Promise<EntryLine[]> {
  const answer = await api.call("GET", `/v2/projects/${api.projectId}/audit-log/export`);
  const lines = String(answer.body)
    .trimEnd()
    .split("\n")
    .map((line): Json => JSON.parse(line));
  return lines.filter(({ kind }) => kind === "entry");
}

async function taken(here: Stage): Promise<void> {
  await until("the receiver has everything", async () => (await state(here)).waiting === 0, {
    deadlineMs: 30_000,
  });
}

/** Throws unless the secret signed what came. */
function verify(secret: string, { body, headers }: Received): void {
  new Webhook(secret).verify(body.toString(), headers as Record<string, string>);
}

/** Moves what waits for a retry into the present. */
async function makeDue({ api }: Stage): Promise<void> {
  await sql`update audit_forwardings set due_at = clock_timestamp() where lease_holder is null`.execute(
    api.db,
  );
}

test("entries come as lines of the chain, in order, signed, from the entry of the choice on", async (t) => {
  const here = await stage(t);
  await add(here, 3);
  const { secret, ...forwarding } = await set(here);
  assert.deepEqual([forwarding.url, forwarding.state], [`${here.receiver.url}/hook`, "active"]);
  assert.ok(readWebhookSecret(secret));
  await open(t, here);
  await add(here, 700);
  await taken(here);
  const { received } = here.receiver;
  for (const one of received) {
    assert.equal(one.path, "/hook?key=1");
    verify(secret, one);
    const { type, timestamp, data } = JSON.parse(one.body.toString());
    assert.deepEqual([type, data.project], ["audit_log.entries", here.api.projectId]);
    assert.equal(timestamp, data.entries.at(-1).entry.timestamp);
  }
  const lines = linesOf(received);
  assert.equal(lines[0]?.entry.action, "audit_log.forwarding_set");
  assert.doesNotMatch(JSON.stringify(lines), /whsec_|key=1/);
  const first = lines[0].number;
  assert.deepEqual(
    lines,
    (await chain(here)).filter(({ number }) => number >= first && number < first + lines.length),
  );
  assert.equal(lines.length, 701);
  assert.equal((await here.api.call("GET", here.path)).body.secret, undefined, "it is shown once");
});

test("a receiver that fails gets the same batch again, later and later, and the state says why", async (t) => {
  const here = await stage(t);
  here.receiver.answer = answerWith(503, "busy");
  await set(here);
  await open(t, here);
  await until("it fails", async () => (await state(here)).state === "failing");
  const failing = await state(here);
  assert.equal(failing.reason, "The receiver answered 503.");
  assert.ok(
    failing.failingSince !== null && failing.nextAttemptAt !== null && failing.waiting === 1,
  );
  await add(here, 5);
  await makeDue(here);
  await until("it was tried again", () => here.receiver.received.length >= 2);
  const [one, other] = here.receiver.received;
  assert.deepEqual(other?.body, one?.body, "what comes later is not mixed into it");
  assert.equal(other?.headers["webhook-id"], one?.headers["webhook-id"]);
  here.receiver.answer = answerWith(200);
  await until("it is taken", async () => {
    await makeDue(here);
    return (await state(here)).waiting === 0;
  });
  const fine = await state(here);
  assert.deepEqual(
    [fine.state, fine.reason, fine.failingSince, fine.nextAttemptAt],
    ["active", null, null, null],
  );
  const numbers = new Set(linesOf(here.receiver.received).map(({ number }) => number));
  assert.equal(numbers.size, 6);
});

test("one that was held back says so in the log, and goes on where it was when it is set again", async (t) => {
  const here = await stage(t);
  here.receiver.answer = answerWith(410);
  const { secret } = await set(here);
  await open(t, here);
  await until("it is held back", async () => (await state(here)).state === "paused");
  assert.match((await state(here)).reason ?? "", /answered 410.*Set the forwarding again/);
  await add(here, 2);
  const answer = await here.api.call(
    "GET",
    `/v2/projects/${here.api.projectId}/audit-log?action=audit_log.forwarding_pause`,
  );
  const [entry] = answer.body.logs;
  assert.deepEqual(
    [entry.actor.type, entry.outcome, entry.reason],
    ["platform", "failure", (await state(here)).reason],
  );
  here.receiver.answer = answerWith(200);
  const again = await set(here);
  assert.equal(again.secret, undefined, "the secret stays");
  await taken(here);
  const lines = linesOf(here.receiver.received.slice(1));
  assert.deepEqual(
    lines.map(({ entry: { action } }) => action),
    [
      "audit_log.forwarding_set",
      "audit_log.forwarding_pause",
      "app.update",
      "app.update",
      "audit_log.forwarding_set",
    ],
  );
  for (const one of here.receiver.received) verify(secret, one);
});

test("another URL or secret is used at once, and nothing is sent after the end", async (t) => {
  const here = await stage(t);
  await set(here);
  await open(t, here);
  await taken(here);
  const other = await startReceiver(t);
  const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
  await set(here, { url: `${other.url}/other`, secret });
  await taken(here);
  const [first] = other.received;
  assert.ok(first);
  verify(secret, first);
  assert.equal((await here.api.call("DELETE", here.path)).status, 200);
  const count = other.received.length;
  await add(here, 3);
  for (const method of ["GET", "DELETE"])
    assert.equal((await here.api.call(method, here.path)).status, 404);
  // A new one is sent to after whatever would have been sent to the old one.
  await set(here);
  await taken(here);
  assert.equal(other.received.length, count);
});

test("several platforms send each entry once, in order", async (t) => {
  const here = await stage(t);
  await set(here);
  await Promise.all([open(t, here), open(t, here), open(t, here)]);
  await Promise.all(Array.from({ length: 8 }, () => add(here, 50)));
  await taken(here);
  const numbers = linesOf(here.receiver.received).map(({ number }) => number);
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => (numbers[0] ?? 0) + index),
  );
  assert.equal(numbers.length, 401);
});

test("the operator's receiver gets every chain, also of projects that come later", async (t) => {
  const here = await stage(t);
  await add(here, 4);
  const key = Buffer.alloc(32, 3);
  const { client, close } = outwardClient();
  t.after(close);
  const platform = { url: `${here.receiver.url}/all`, key, client };
  const stop = await open(t, here, { platform });
  const known = async (): Promise<number> =>
    (await here.api.db.selectFrom("audit_forwardings").select("id").execute()).length;
  await until("its chains are known", async () => (await known()) > 0);
  await add(here, 2);
  const second = await here.api.addProject("second");
  await add(here, 2, second);
  await add(here, 2, null);
  const countOf = (project: string | null): number =>
    here.receiver.received
      .filter((one) => batchOf(one).project === project)
      .flatMap((one) => batchOf(one).entries).length;
  await until(
    "all have come",
    () => countOf(here.api.projectId) >= 2 && countOf(second) >= 3 && countOf(null) >= 2,
  );
  assert.equal(countOf(here.api.projectId), 2, "from now on");
  assert.equal(countOf(second), 3, "from its first entry on");
  const secret = `whsec_${key.toString("base64")}`;
  for (const one of here.receiver.received) verify(secret, one);
  await stop();
  const stopOther = await open(t, here);
  await stopOther();
  assert.equal(await known(), 0, "without the setting nothing is kept of it");
});

test("bad choices are refused by name, and another project's is not there", async (t) => {
  const here = await stage(t);
  for (const [body, form] of [
    [{}, /^url is missing/],
    [{ url: "" }, /^url is/],
    [{ url: "https://receiver.example/", secret: "short" }, /^secret .*must be whsec_/],
    [{ url: "https://receiver.example/", more: 1 }, /"more" is not a field/],
  ] as const) {
    const answer = await here.api.call("PUT", here.path, { body });
    assert.deepEqual(
      [answer.status, form.test(answer.body.message)],
      [400, true],
      answer.body.message,
    );
    assert.doesNotMatch(answer.body.message, /short/);
  }
  await set(here);
  const admin = await here.api.issue({ kind: "service_account", role: "admin" });
  const stranger = await here.api.issue({
    kind: "service_account",
    projectId: await here.api.addProject("second"),
  });
  for (const method of ["GET", "PUT", "DELETE"]) {
    const options = method === "PUT" ? { body: { url: "https://receiver.example/" } } : {};
    assert.equal(
      (await here.api.call(method, here.path, { ...options, token: admin })).status,
      403,
    );
    assert.equal(
      (await here.api.call(method, here.path, { ...options, token: stranger })).status,
      404,
    );
  }
});

test("the last that is sent of a project is that it was deleted", async (t) => {
  const here = await stage(t);
  await set(here);
  assert.equal((await here.api.call("DELETE", `/v2/projects/${here.api.projectId}`)).status, 200);
  await open(t, here);
  const known = async (): Promise<unknown[]> =>
    await here.api.db.selectFrom("audit_forwardings").select("id").execute();
  await until("nothing is kept of it", async () => (await known()).length === 0);
  assert.equal(linesOf(here.receiver.received).at(-1)?.entry.action, "project.delete");
});

test("the secret is sealed, and sealed anew with a new key", async (t) => {
  const here = await stage(t);
  const { secret } = await set(here);
  const { db, sealer, secretKey } = here.api;
  assert.ok((await sealingKeyIds(db, sealedColumns)).includes(sealer.keyIds()[0] ?? ""));
  const newKey = "ab".repeat(32);
  const both = new Sealer([newKey, secretKey]);
  assert.ok((await resealOld(db, both, sealedColumns)) > 0);
  assert.equal(await resealOld(db, both, sealedColumns), 0);
  await open(t, here, { sealer: new Sealer([newKey]) });
  await taken(here);
  for (const one of here.receiver.received) verify(secret, one);
});

test("a platform that stops waits for no receiver, and what was under way is sent by the next one", async (t) => {
  const here = await stage(t);
  let isHeld = false;
  here.receiver.answer = () => void (isHeld = true);
  await set(here);
  const stop = await open(t, here, { timeoutMs: 600_000, instanceId: "one" });
  await until("a batch is under way", () => isHeld);
  await stop();
  assert.equal((await state(here)).state, "active", "it was not the receiver that failed");
  here.receiver.answer = answerWith(200);
  await open(t, here, { instanceId: "one" });
  await taken(here);
  const [one, other] = here.receiver.received;
  assert.deepEqual(other?.body, one?.body);
});

test("what retention has removed before it was sent is passed over", async (t) => {
  const here = await stage(t);
  const { db } = here.api;
  const projectId = "p-00000001" as ProjectId;
  await db.insertInto("projects").values({ id: projectId, name: "old" }).execute();
  const old = {
    project_id: projectId,
    action: "app.update",
    outcome: "success",
    actor_type: "platform",
  } as const;
  await db
    .insertInto("audit_log")
    .values(Array.from({ length: 30 }, () => ({ ...old, at: new Date("2020-01-01") })))
    .execute();
  await add(here, 5, projectId);
  const row = {
    id: randomUUID(),
    scope: "platform",
    chain: projectId,
    position: 3,
    sending_through: 20,
  } as const;
  await db.insertInto("audit_forwardings").values(row).execute();
  const signer = testSigner();
  const options = { db, signer, clock: systemClock, retentionOf: () => 365 };
  await removeOld(auditRetention(options), new AbortController().signal);
  const { client, close } = outwardClient();
  t.after(close);
  await open(t, here, { platform: { url: here.receiver.url, key: null, client } });
  const numbers = (): number[] =>
    here.receiver.received
      .filter((one) => batchOf(one).project === projectId)
      .flatMap((one) => batchOf(one).entries.map(({ number }) => number));
  await until("what is left has come", () => numbers().length === 5);
  assert.deepEqual(numbers(), [31, 32, 33, 34, 35]);
});
