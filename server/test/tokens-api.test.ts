// API keys, operators' tokens and signing keys through the management API.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import "#test/support/leftovers.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "#test/support/management-api.ts";
import { until } from "#test/support/until.ts";

function keysPath(api: ApiUnderTest): string {
  return `/v2/projects/${api.projectId}/api-keys`;
}

async function entriesOf(api: ApiUnderTest, action: string): Promise<Json[]> {
  return await api.db
    .selectFrom("audit_log")
    .selectAll()
    .where("action", "=", action)
    .orderBy("id")
    .execute();
}

test("an API key calls apps and nothing else, for ten years when no end is chosen", async (t) => {
  const api = await startManagementApi(t);
  const made = await api.call("POST", keysPath(api), { body: { name: "callers" } });
  const { token, ...key } = made.body;
  assert.deepEqual(
    [made.status, key.readable, key.source, key.apiKey],
    [201, false, "slipway", null],
  );
  assert.ok(
    Math.abs((Date.parse(key.expires_at) - systemClock.now()) / 31_557_600_000 - 10) < 0.01,
  );
  assert.deepEqual(Object.keys(decodeJwt(token)).toSorted(), ["exp", "iat", "jti", "projectId"]);
  assert.equal(
    (await api.call("GET", `/v2/projects/${api.projectId}/apps`, { token })).status,
    403,
  );
  assert.equal((await api.tokens.check(token))?.kind, "inference");
  const [listed] = (await api.call("GET", keysPath(api))).body;
  assert.deepEqual(listed, key);
  assert.equal((await entriesOf(api, "token.read")).length, 0, "nothing was shown");
});

test("a readable API key is read back as existing clients do, byte for byte, and stored nowhere", async (t) => {
  const api = await startManagementApi(t);
  await api.call("POST", keysPath(api), { body: { name: "hidden" } });
  const made = await api.call("POST", keysPath(api), { body: { name: "shown", readable: true } });
  await api.call("POST", keysPath(api), { body: { name: "newest" } });
  const found = async (options: { token?: string } = {}): Promise<Json[]> =>
    (await api.call("GET", keysPath(api), options)).body.filter(
      (one: Json) => one.source === "cerebrium_jwt",
    );
  const [entry, ...others] = await found();
  assert.deepEqual([entry.apiKey, entry.name, others.length], [made.body.token, "shown", 0]);
  assert.equal(
    (await api.call("GET", keysPath(api))).body[0].name,
    "shown",
    "it is the first of the list",
  );
  const stored = await sql<{ row: string }>`select tokens::text as row from tokens`.execute(api.db);
  assert.ok(!JSON.stringify(stored.rows).includes(made.body.token.split(".")[2]));

  // Also after the key that signed it was retired, and the platform has started again.
  await api.keys.rotate(api.db, { actor: { type: "platform", id: null, name: null } });
  await api.keys.load(api.db);
  assert.equal((await found())[0].apiKey, made.body.token);
  const [read] = (await entriesOf(api, "token.read")).slice(-1);
  assert.deepEqual(
    [read.actor_name, read.resource_name, read.project_id],
    ["owner", "shown", api.projectId],
  );
  assert.ok(!JSON.stringify(await entriesOf(api, "token.read")).includes(made.body.token));

  const seeing = await api.call("POST", `/v2/projects/${api.projectId}/service-accounts`, {
    body: { name: "looks", permissions: ["tokens.read"] },
  });
  assert.equal(
    (await found({ token: seeing.body.token })).length,
    0,
    "only to who may issue tokens and call apps",
  );
});

test("a readable API key is rotated: the new one is shown, and a revoked one is not", async (t) => {
  const api = await startManagementApi(t);
  const made = await api.call("POST", keysPath(api), { body: { name: "shown", readable: true } });
  const rotated = await api.call("POST", `${keysPath(api)}/${made.body.id}/rotate`, {
    body: { overlap_seconds: 60 },
  });
  assert.equal(rotated.status, 201);
  const [listed] = (await api.call("GET", keysPath(api))).body;
  assert.deepEqual([listed.apiKey, listed.id], [rotated.body.token, made.body.id]);
  for (const token of [made.body.token, rotated.body.token])
    assert.ok(await api.tokens.check(token));
  assert.equal((await api.call("DELETE", `${keysPath(api)}/${made.body.id}`)).status, 200);
  for (const token of [made.body.token, rotated.body.token]) {
    await until("it is refused", async () => (await api.tokens.check(token)) === null);
  }
  const [ended] = (await api.call("GET", keysPath(api))).body;
  assert.deepEqual([ended.apiKey, ended.source, ended.state], [null, "slipway", "revoked"]);
});

test("operators make, rotate and revoke tokens of their own, but never the last one", async (t) => {
  const api = await startManagementApi(t);
  const path = "/v2/operator/tokens";
  const first = await api.issue({ kind: "operator", name: "first" });
  assert.equal((await api.call("GET", path)).status, 403, "a project's owner is no operator");
  const [only] = (await api.call("GET", path, { token: first })).body;
  const last = await api.call("DELETE", `${path}/${only.id}`, { token: first });
  assert.equal(last.status, 409);
  const made = await api.call("POST", path, { token: first, body: { name: "second" } });
  assert.equal(made.status, 201);
  assert.equal(decodeJwt(made.body.token)["principal"], `operator/op-${made.body.id}`);
  const rotated = await api.call("POST", `${path}/${made.body.id}/rotate`, { token: first });
  const second = rotated.body.token;
  assert.equal((await api.call("DELETE", `${path}/${only.id}`, { token: second })).status, 200);
  await until(
    "it is refused",
    async () => (await api.call("GET", path, { token: first })).status === 401,
  );
  assert.equal((await api.call("GET", path, { token: second })).status, 200);
  const [revoked] = await entriesOf(api, "token.revoke");
  assert.deepEqual([revoked.outcome, revoked.project_id], ["failure", null]);
});

test("of two operators who revoke each other's last token one stays", async (t) => {
  const api = await startManagementApi(t);
  const path = "/v2/operator/tokens";
  const tokens = [await api.issue({ kind: "operator" }), await api.issue({ kind: "operator" })];
  const ids = tokens.map((token) => decodeJwt(token).jti);
  for (const token of tokens) assert.equal((await api.call("GET", path, { token })).status, 200);
  const [one = "", other = ""] = tokens;
  const answers = await Promise.all([
    api.call("DELETE", `${path}/${ids[1]}`, { token: one }),
    api.call("DELETE", `${path}/${ids[0]}`, { token: other }),
  ]);
  assert.ok(answers.some((answer) => answer.status === 200));
  assert.ok(answers.some((answer) => answer.status === 409 || answer.status === 401));
  const listed = await Promise.all(tokens.map((token) => api.call("GET", path, { token })));
  assert.ok(listed.some((answer) => answer.status === 200));
});

test("signing keys are rotated; the old one verifies on and is withdrawn when nothing is signed by it", async (t) => {
  const api = await startManagementApi(t);
  const path = "/v2/operator/signing-keys";
  const operator = await api.issue({ kind: "operator" });
  const [before] = (await api.call("GET", path, { token: operator })).body;
  assert.deepEqual(
    [before.state, before.valid_tokens],
    ["current", 2],
    "the owner's token and the operator's",
  );
  const made = await api.call("POST", path, { token: operator });
  assert.deepEqual([made.status, made.body.state, made.body.valid_tokens], [201, "current", 0]);
  const account = await api.call("POST", `/v2/projects/${api.projectId}/service-accounts`, {
    body: { name: "new", role: "owner" },
  });
  assert.equal(decodeProtectedHeader(account.body.token).kid, made.body.id);
  assert.equal((await api.call("GET", path, { token: operator })).body[1].state, "retired");
  const published = (await api.call("GET", "/.well-known/jwks.json", { token: null })).body.keys;
  assert.deepEqual(
    published.map((key: Json) => key.kid).toSorted(),
    [before.id, made.body.id].toSorted(),
  );

  const current = await api.call("DELETE", `${path}/${made.body.id}?force=true`, {
    token: operator,
  });
  assert.equal(current.status, 409, "the one that signs");
  const used = await api.call("DELETE", `${path}/${before.id}`, { token: operator });
  assert.equal(used.status, 409);
  assert.match(used.body.message, /has signed 2 tokens that are still valid/);
  assert.equal((await api.call("DELETE", `${path}/nonsense`, { token: operator })).status, 404);

  const fresh = await api.issue({ kind: "operator", name: "fresh" });
  for (const token of [operator, api.token]) {
    const id = decodeJwt(token).jti;
    const place =
      token === operator ? "/v2/operator/tokens" : `/v2/projects/${api.projectId}/service-accounts`;
    assert.equal((await api.call("DELETE", `${place}/${id}`, { token: fresh })).status, 200);
  }
  const gone = await api.call("DELETE", `${path}/${before.id}`, { token: fresh });
  assert.deepEqual([gone.status, gone.body.state], [200, "withdrawn"]);
  const [row] = await api.db
    .selectFrom("signing_keys")
    .selectAll()
    .where("id", "=", before.id)
    .execute();
  assert.equal(row?.private_key_sealed, "", "its private half is gone");
  assert.equal(
    (await api.call("GET", "/.well-known/jwks.json", { token: null })).body.keys.length,
    1,
  );
  assert.equal((await api.call("DELETE", `${path}/${before.id}`, { token: fresh })).status, 404);
  assert.deepEqual(
    (await entriesOf(api, "signing_key.withdraw")).map((entry) => entry.outcome),
    ["failure", "failure", "failure", "success", "failure"],
  );
});
