// Limits of the management API as clients meet them: requests of one token per minute, and what
// answers say of it.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { startManagementApi, type ApiAnswer } from "./support/management-api.ts";
import { movableClock } from "./support/movable-clock.ts";

function left({ headers }: ApiAnswer): (string | null)[] {
  return ["limit", "remaining", "reset"].map((name) => headers.get(`ratelimit-${name}`));
}

test("each answer says what is left of a token's requests; one too many is 429 with Retry-After, for this token alone", async (t) => {
  const clock = movableClock();
  const api = await startManagementApi(t, { settings: { requestsPerMinute: 3 }, clock });
  const other = await api.issue({ kind: "service_account", role: "member", name: "other" });
  assert.deepEqual(left(await api.call("GET", "/v2/projects")), ["3", "2", "60"]);
  assert.deepEqual(left(await api.call("GET", `/v2/projects/${api.projectId}/apps/none`)), [
    "3",
    "1",
    "60",
  ]);
  assert.deepEqual(
    left(await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body: {} })),
    ["3", "0", "60"],
  );
  const refused = await api.call("GET", "/v2/projects");
  assert.equal(refused.status, 429);
  assert.deepEqual([...left(refused), refused.headers.get("retry-after")], ["3", "0", "60", "60"]);
  assert.match(
    refused.body.message,
    /^This token has sent 3 requests within a minute, which is the limit; try again in 60 s\.$/,
  );
  assert.equal((await api.call("GET", "/v2/projects", { token: other })).status, 200);
  const health = await api.call("GET", "/healthz", { token: null });
  assert.deepEqual([health.status, ...left(health)], [200, null, null, null]);
  clock.moveMs += 60_000;
  assert.deepEqual(left(await api.call("GET", "/v2/projects")), ["3", "2", "60"]);
});

describe("an Idempotency-Key", () => {
  const headers = { "idempotency-key": "one" };

  test("gives the first answer again, also after a restart, with its secret sealed in the database, and acts once", async (t) => {
    const api = await startManagementApi(t);
    const path = `/v2/projects/${api.projectId}/service-accounts`;
    const body = { name: "ci", role: "member" };
    const first = await api.call("POST", path, { body, headers });
    assert.deepEqual([first.status, first.headers.get("idempotency-replayed")], [201, null]);
    const again = await api.call("POST", path, { body, headers });
    assert.deepEqual([again.status, again.headers.get("idempotency-replayed")], [201, "true"]);
    assert.deepEqual(again.body, first.body);
    const fixture = { url: api.databaseUrl, secretKey: api.secretKey };
    const restarted = await startManagementApi(t, { fixture });
    const later = await restarted.call("POST", path, { body, headers, token: api.token });
    assert.deepEqual([later.status, later.body], [201, first.body]);
    const { body: list } = await api.call("GET", path);
    assert.equal(list.filter(({ name }: { name: string }) => name === "ci").length, 1);
    const rows = await api.db.selectFrom("request_keys").selectAll().execute();
    assert.equal(rows.length, 1);
    assert.equal(JSON.stringify(rows).includes(first.body.token), false);
  });

  test("is of one caller, one path and one body; another request with it is 422, a refused one frees it", async (t) => {
    const api = await startManagementApi(t);
    const path = `/v2/projects/${api.projectId}/apps/git`;
    const body = { name: "hello", gitRepo: "acme/shop" };
    assert.equal(
      (await api.call("POST", path, { body: { ...body, cpu: -1 }, headers })).status,
      400,
    );
    assert.equal((await api.call("POST", path, { body, headers })).status, 201);
    const other = await api.call("POST", path, { body: { ...body, cpu: 1 }, headers });
    assert.equal(other.status, 422, other.body.message);
    assert.match(
      other.body.message,
      /^This Idempotency-Key was used within 24 hours for a request with another/,
    );
    assert.equal(
      (await api.call("POST", path, { body })).status,
      409,
      "without the key the name is taken",
    );
    const token = await api.issue({ kind: "service_account", name: "other" });
    assert.equal(
      (await api.call("POST", path, { body, headers, token })).status,
      409,
      "of another caller it is new",
    );
    const bad = await api.call("POST", path, {
      body,
      headers: { "idempotency-key": "x".repeat(256) },
    });
    assert.equal(bad.status, 400);
    assert.equal(
      (await api.call("PATCH", `/v2/projects/${api.projectId}`, { body: { name: "x" }, headers }))
        .status,
      200,
    );
  });

  test("is 409 while the first request runs; of many at once one acts", async (t) => {
    const api = await startManagementApi(t);
    const path = `/v2/projects/${api.projectId}/apps/git`;
    const body = { name: "hello", gitRepo: "acme/shop" };
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => api.call("POST", path, { body, headers })),
    );
    const made = answers.filter(({ status }) => status === 201);
    assert.ok(made.length >= 1);
    for (const answer of made) assert.deepEqual(answer.body, made[0]?.body);
    for (const { status, body: refusal } of answers) {
      assert.ok(status === 201 || status === 409);
      if (status === 409) assert.match(refusal.message, /still being handled/);
    }
    assert.equal((await api.db.selectFrom("builds").select("id").execute()).length, 1);
  });

  test("of a request that was cut off is 409 and never acts again; after a day it is free", async (t) => {
    const clock = movableClock();
    const api = await startManagementApi(t, { clock });
    const path = `/v2/projects/${api.projectId}/apps/git`;
    const body = { name: "hello", gitRepo: "acme/shop" };
    assert.equal((await api.call("POST", path, { body, headers })).status, 201);
    // As a platform leaves it that is killed between the effect and the answer.
    await api.db.updateTable("request_keys").set({ answer_sealed: null }).execute();
    const cut = await api.call("POST", path, { body, headers });
    assert.equal(cut.status, 409);
    assert.match(
      cut.body.message,
      /was cut off, and may have had its effect: check what exists, then use a new key/,
    );
    clock.moveMs += 86_400_001;
    const next = await api.call("POST", path, { body, headers });
    assert.match(
      next.body.message,
      /hello/,
      "the name is taken, which only a request that acts can say",
    );
  });
});

test("a body that is nested deeper than any request is refused before it is parsed", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}/apps/git`;
  const text = `{"name":"deep","gitRepo":"acme/shop","cpu":${"[".repeat(400_000)}${"]".repeat(400_000)}}`;
  const answer = await api.call("POST", path, { text });
  assert.deepEqual(
    [answer.status, answer.body.message],
    [400, "The JSON is nested more than 100 levels deep."],
  );
});
