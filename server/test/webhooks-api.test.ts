// Webhooks over the wire: signing secrets, deliveries, endpoints, the schedule; what each answers,
// and to whom.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import { newRunId, type AppId } from "#lib/ids.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { insertDelivery } from "./support/webhook-rows.ts";

type Stage = {
  readonly api: ApiUnderTest;
  readonly place: Parameters<typeof insertDelivery>[0];
  readonly project: string;
};

async function stage(t: TestContext): Promise<Stage> {
  const api = await startManagementApi(t);
  const appId = `${api.projectId}-my-app` as AppId;
  return {
    api,
    place: { db: api.db, projectId: api.projectId, appId },
    project: `/v2/projects/${api.projectId}`,
  };
}

test("a project has a signing secret, two are valid while it is changed over, and a removed one is gone", async (t) => {
  const { api, project } = await stage(t);
  const path = `${project}/webhook-secrets`;
  const first = await api.call("GET", path);
  assert.equal(first.status, 200, JSON.stringify(first.body));
  const [made, ...more] = answers.webhookSecretList.parse(first.body);
  assert.ok(made !== undefined && made.secret !== null && more.length === 0);
  assert.ok(Buffer.from(made.secret.slice("whsec_".length), "base64").length >= 24);
  const beganMs = Date.now();
  const second = answers.newWebhookSecret.parse(
    (await api.call("POST", path, { body: { overlapHours: 2 } })).body,
  );
  const list = await api.call("GET", path);
  const [newest, older] = answers.webhookSecretList.parse(list.body);
  assert.deepEqual([newest?.id, newest?.expiresAt, older?.id], [second.id, null, made.id]);
  const sinceMs = Date.parse(older?.expiresAt ?? "") - 7_200_000;
  assert.ok(sinceMs >= beganMs && sinceMs <= Date.now(), "it stays valid for two hours");
  assert.deepEqual(
    [newest?.secret, older?.secret],
    [second.secret, made.secret],
    "who may make them may see them",
  );
  const reader = { name: "reader", permissions: ["webhooks.read"] };
  const { token } = (await api.call("POST", `${project}/service-accounts`, { body: reader })).body;
  const seen = answers.webhookSecretList.parse((await api.call("GET", path, { token })).body);
  assert.deepEqual(
    seen.map(({ id, secret }) => [id, secret]),
    [
      [second.id, null],
      [made.id, null],
    ],
  );
  // An id in capitals is the same id.
  assert.equal((await api.call("DELETE", `${path}/${made.id.toUpperCase()}`)).status, 200);
  const left = answers.webhookSecretList.parse((await api.call("GET", path)).body);
  assert.deepEqual(left, [second]);
  assert.equal((await api.call("DELETE", `${path}/${made.id}`)).status, 404);
  for (const overlapHours of [-1, 721, "2"]) {
    const answer = await api.call("POST", path, { body: { overlapHours } });
    assert.equal(answer.status, 400);
    assert.match(answer.body.message, /^overlapHours is/);
  }
  const audit = await api.db
    .selectFrom("audit_log")
    .selectAll()
    .where("action", "like", "webhook%")
    .execute();
  assert.doesNotMatch(JSON.stringify(audit), /whsec_/);
  const deleted = audit.filter(
    ({ action, outcome }) => action === "webhook_secrets.delete" && outcome === "success",
  );
  assert.deepEqual(
    deleted.map((row) => row.resource_id),
    [made.id],
  );
});

test("deliveries are listed newest first, by state, endpoint and run, and shown with their attempts", async (t) => {
  const { api, place, project } = await stage(t);
  const runId = newRunId();
  const failed = await insertDelivery(place, { runId });
  const delivered = await insertDelivery(place, { state: "delivered" });
  const pending = await insertDelivery(place, {
    state: "pending",
    url: "https://other.example.org/",
  });
  const ids = async (query: string): Promise<string[]> => {
    const answer = await api.call("GET", `${project}/webhook-deliveries${query}`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answers.webhookDeliveryPage.parse(answer.body).items.map((item) => item.id);
  };
  assert.deepEqual(await ids(""), [pending.id, delivered.id, failed.id]);
  assert.deepEqual(await ids("?state=failed"), [failed.id]);
  assert.deepEqual(await ids(`?endpointId=${failed.endpointId}`), [delivered.id, failed.id]);
  assert.deepEqual(await ids(`?runId=${runId}`), [failed.id]);
  const page = await api.call("GET", `${project}/webhook-deliveries?pageSize=2`);
  assert.deepEqual(await ids(`?pageSize=2&nextToken=${page.body.nextToken}`), [failed.id]);
  const wrong = await api.call(
    "GET",
    `${project}/webhook-deliveries?state=failed&nextToken=${page.body.nextToken}`,
  );
  assert.equal(wrong.status, 400);
  for (const [query, message] of [
    ["pageSize=0", /^pageSize is 0, but must be a whole number from 1 to 200\./],
    ["pageSize=201", /^pageSize is 201/],
    ["endpointId=abc", /^endpointId is "abc", but must be an endpoint's id, which is a UUID\./],
    ["runId=abc", /^runId is "abc", but must be a run id, which is a UUID\./],
  ] as const) {
    const { status, body } = await api.call("GET", `${project}/webhook-deliveries?${query}`);
    assert.deepEqual([status, message.test(body.message)], [400, true], body.message);
  }
  const one = await api.call("GET", `${project}/webhook-deliveries/${failed.id}`);
  const { item, attempts } = answers.oneWebhookDelivery.parse(one.body);
  assert.deepEqual(
    [item.runId, item.state, item.isReplayable, item.attempts],
    [runId, "failed", true, 1],
  );
  assert.deepEqual(
    attempts.map(({ number, statusCode, answer, durationMs }) => [
      number,
      statusCode,
      answer,
      durationMs,
    ]),
    [[1, 500, "oh no", 12.5]],
  );
  for (const [id, status] of [
    ["nonsense", 404],
    [newRunId(), 404],
    [failed.id.toUpperCase(), 200],
  ] as const) {
    assert.equal((await api.call("GET", `${project}/webhook-deliveries/${id}`)).status, status);
  }
});

test("deliveries that have ended are sent again, one or a range; what has not ended or lost its body is refused", async (t) => {
  const { api, place, project } = await stage(t);
  const path = `${project}/webhook-deliveries`;
  const day = (date: number): Date => new Date(Date.UTC(2026, 0, date));
  const one = await insertDelivery(place, { createdAt: day(1) });
  const replayed = await api.call("POST", `${path}/${one.id}/replay`);
  assert.equal(replayed.status, 200, JSON.stringify(replayed.body));
  assert.equal(answers.replayedWebhookDelivery.parse(replayed.body).item.state, "pending");
  assert.equal((await api.call("POST", `${path}/${one.id}/replay`)).status, 409);
  const without = await insertDelivery(place, { body: null });
  assert.equal((await api.call("POST", `${path}/${without.id}/replay`)).status, 409);
  for (const date of [2, 3, 4]) await insertDelivery(place, { createdAt: day(date) });
  await insertDelivery(place, { createdAt: day(3), state: "delivered" });
  const range = { from: "2026-01-02T00:00:00Z", to: "2026-01-04T00:00:00Z" };
  const many = await api.call("POST", `${path}/replay`, { body: range });
  assert.deepEqual(answers.replayedWebhookDeliveries.parse(many.body), {
    replayed: 2,
    hasMore: false,
  });
  const delivered = await api.call("POST", `${path}/replay`, {
    body: { ...range, state: "delivered" },
  });
  assert.deepEqual(delivered.body, { replayed: 1, hasMore: false });
  for (const [body, message] of [
    [{ from: range.from }, /^to is missing/],
    [{ from: range.to, to: range.from }, /from must be earlier than to/],
    [{ from: "yesterday", to: range.to }, /^from is "yesterday", but must be a (valid )?time/],
    [{ from: "2026-13-45T00:00:00Z", to: range.to }, /^from is .* a valid time of the form/],
    [{ ...range, state: "pending" }, /^state is "pending"/],
    [{ ...range, limit: 1 }, /"limit" is not a field/],
  ] as const) {
    const answer = await api.call("POST", `${path}/replay`, { body });
    assert.deepEqual(
      [answer.status, message.test(answer.body.message)],
      [400, true],
      answer.body.message,
    );
  }
});

test("endpoints are listed, held back and let go on; a second time is refused", async (t) => {
  const { api, place, project } = await stage(t);
  const { endpointId } = await insertDelivery(place, { state: "pending" });
  const path = `${project}/webhook-endpoints`;
  const list = answers.webhookEndpointPage.parse((await api.call("GET", path)).body);
  assert.deepEqual(
    list.items.map((item) => [item.id, item.url, item.waiting, item.pausedAt]),
    [[endpointId, "https://example.org/hook", 1, null]],
  );
  const paused = await api.call("POST", `${path}/${endpointId}/pause`);
  assert.notEqual(answers.oneWebhookEndpoint.parse(paused.body).item.pausedAt, null);
  assert.equal((await api.call("POST", `${path}/${endpointId}/pause`)).status, 409);
  const resumed = await api.call("POST", `${path}/${endpointId.toUpperCase()}/resume`);
  assert.equal(answers.oneWebhookEndpoint.parse(resumed.body).item.pausedAt, null);
  assert.equal((await api.call("POST", `${path}/${endpointId}/resume`)).status, 409);
  assert.equal((await api.call("POST", `${path}/${newRunId()}/resume`)).status, 404);
  const audit = await api.db
    .selectFrom("audit_log")
    .select("resource_id")
    .where("action", "=", "webhook_endpoints.resume")
    .where("outcome", "=", "success")
    .execute();
  assert.deepEqual(audit, [{ resource_id: endpointId }]);
});

test("a project chooses its schedule", async (t) => {
  const { api, project } = await stage(t);
  const path = `${project}/webhook-schedule`;
  assert.deepEqual((await api.call("GET", path)).body, { schedule: "standard" });
  assert.deepEqual((await api.call("PUT", path, { body: { schedule: "short" } })).body, {
    schedule: "short",
  });
  assert.deepEqual((await api.call("GET", path)).body, { schedule: "short" });
  for (const body of [{}, { schedule: "never" }, { schedule: "short", more: 1 }]) {
    assert.equal((await api.call("PUT", path, { body })).status, 400);
  }
});

test("another project sees and changes nothing of it, and who may only see money changes nothing either", async (t) => {
  const { api, place, project } = await stage(t);
  const { id, endpointId } = await insertDelivery(place);
  const secret = await api.call("POST", `${project}/webhook-secrets`);
  const strangers = await api.addProject("second");
  const token = await api.issue({ kind: "service_account", projectId: strangers });
  const billing = await api.issue({ kind: "service_account", role: "billing" });
  const own = `/v2/projects/${strangers}`;
  for (const [method, path] of [
    ["GET", `/webhook-deliveries/${id}`],
    ["POST", `/webhook-deliveries/${id}/replay`],
    ["POST", `/webhook-endpoints/${endpointId}/pause`],
    ["POST", `/webhook-endpoints/${endpointId}/resume`],
    ["DELETE", `/webhook-secrets/${secret.body.id}`],
  ] as const) {
    assert.equal((await api.call(method, project + path, { token })).status, 404, path);
    assert.equal(
      (await api.call(method, own + path, { token })).status,
      404,
      `${path} in a project of its own`,
    );
    assert.equal((await api.call(method, project + path, { token: billing })).status, 403, path);
  }
  assert.deepEqual((await api.call("GET", `${own}/webhook-deliveries`, { token })).body, {
    items: [],
  });
  const [theirs, ...more] = answers.webhookSecretList.parse(
    (await api.call("GET", `${own}/webhook-secrets`, { token })).body,
  );
  assert.ok(theirs !== undefined && theirs.id !== secret.body.id && more.length === 0);
});
