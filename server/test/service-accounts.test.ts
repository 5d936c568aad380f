// Service accounts through the management API: issuing, chosen permissions, rotation, revoking, and
// that nobody gives more rights than their own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeJwt } from "jose";
import { systemClock } from "#lib/clock.ts";
import "#test/support/leftovers.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "#test/support/management-api.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const dayMs = 86_400_000;

/** The latest entry of an action. */
async function entryOf(api: ApiUnderTest, action: string): Promise<Json> {
  const rows = await api.db
    .selectFrom("audit_log")
    .selectAll()
    .where("action", "=", action)
    .orderBy("id")
    .execute();
  return rows.at(-1);
}

function accountsPath(api: ApiUnderTest): string {
  return `/v2/projects/${api.projectId}/service-accounts`;
}

test("a service account is made with a role, works with its token, and is listed without it", async (t) => {
  const api = await startManagementApi(t);
  const end = new Date(Math.floor(systemClock.now() / 1000) * 1000 + dayMs).toISOString();
  const made = await api.call("POST", accountsPath(api), {
    body: { name: " ci ", role: "member", expires_at: end },
  });
  assert.equal(made.status, 201);
  const { token, ...account } = made.body;
  assert.deepEqual(
    [
      account.name,
      account.role,
      account.permissions,
      account.state,
      account.expires_at,
      account.last_used_at,
    ],
    ["ci", "member", null, "active", end, null],
  );
  assert.equal(account.tokens.length, 1);
  const claims = decodeJwt(token);
  assert.equal(claims["principal"], `serviceaccount/sa-${account.id}`);
  assert.deepEqual([claims["projectId"], claims.exp], [api.projectId, Date.parse(end) / 1000]);

  const apps = await api.call("GET", `/v2/projects/${api.projectId}/apps`, { token });
  assert.equal(apps.status, 200);
  assert.equal(
    (await api.call("GET", accountsPath(api), { token })).status,
    403,
    "a member sees no tokens",
  );
  const listed = await api.call("GET", accountsPath(api));
  assert.deepEqual(
    listed.body.find((one: Json) => one.id === account.id),
    account,
  );
  assert.ok(!JSON.stringify(listed.body).includes(token));
  const entry = await entryOf(api, "token.create");
  assert.deepEqual(
    [entry.resource_id, entry.resource_name, entry.outcome],
    [account.id, "ci", "success"],
  );
  assert.ok(!JSON.stringify(entry).includes(token));
});

test("one with chosen permissions has these and no others", async (t) => {
  const api = await startManagementApi(t);
  const permissions = ["apps.read", "secrets.read"];
  const made = await api.call("POST", accountsPath(api), { body: { name: "reader", permissions } });
  assert.deepEqual([made.status, made.body.role, made.body.permissions], [201, null, permissions]);
  const { token } = made.body;
  const project = `/v2/projects/${api.projectId}`;
  assert.equal((await api.call("GET", `${project}/apps`, { token })).status, 200);
  assert.equal((await api.call("GET", `${project}/secrets`, { token })).status, 200);
  const refused = await api.call("PATCH", `${project}/secrets`, { token, body: { A: "1" } });
  assert.equal(refused.status, 403);
  assert.match(refused.body.message, /lacks the permission secrets\.write/);
  assert.equal((await entryOf(api, "secrets.update")).outcome, "failure");
});

test("bad wishes are refused, each by its field", async (t) => {
  const api = await startManagementApi(t);
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [{ role: "member" }, /^name is missing/],
    [{ name: "  ", role: "member" }, /^name is /],
    [{ name: "x".repeat(101), role: "member" }, /^name is /],
    [{ name: "ci" }, /^Either role or permissions is required/],
    [
      { name: "ci", role: "member", permissions: ["apps.read"] },
      /^Send either role or permissions/,
    ],
    [{ name: "ci", role: "king" }, /^role is "king"/],
    [{ name: "ci", permissions: [] }, /^permissions is /],
    [{ name: "ci", permissions: ["apps.read", "apps.read"] }, /^permissions is /],
    [{ name: "ci", permissions: ["platform.manage"] }, /^permissions is /],
    [{ name: "ci", permissions: "apps.read" }, /^permissions is /],
    [{ name: "ci", role: "member", expires_at: "tomorrow" }, /^expires_at is "tomorrow"/],
    [
      { name: "ci", role: "member", expires_at: "2020-01-01T00:00:00Z" },
      /^expires_at is .* must be in the future/,
    ],
    [{ name: "ci", role: "member", expires_at: "2031-02-30T00:00:00Z" }, /^expires_at is /],
    [{ name: "ci", role: "member", expires_at: "2031-13-01T00:00:00Z" }, /^expires_at is /],
    [{ name: "ci", role: "member", expires_at: null, ttl: 1 }, /^"?ttl"? is not a field/],
  ];
  for (const [body, message] of cases) {
    const answer = await api.call("POST", accountsPath(api), { body });
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.match(answer.body.message, message, JSON.stringify(body));
  }
  assert.equal((await api.call("GET", accountsPath(api))).body.length, 1, "nothing was made");
});

test("nobody gives more rights than their own: not by issuing, rotating or changing", async (t) => {
  const api = await startManagementApi(t);
  const path = accountsPath(api);
  const token = await api.issue({ kind: "service_account", role: "admin", name: "admin" });
  const owner = await api.call("POST", path, { body: { name: "owner 2", role: "owner" } });
  const asAdmin = (method: string, at: string, body: unknown): Promise<Json> =>
    api.call(method, at, { token, body });
  const one = `${path}/${owner.body.id}`;
  for (const [method, at, body] of [
    ["POST", path, { name: "up", role: "owner" }],
    ["POST", path, { name: "up", role: "billing" }],
    ["POST", path, { name: "up", permissions: ["apps.read", "audit_log.read"] }],
    ["POST", `${one}/rotate`, {}],
    ["PATCH", one, { role: "member" }],
  ] as const) {
    const answer = await asAdmin(method, at, body);
    assert.equal(answer.status, 403, `${method} ${JSON.stringify(body)}`);
    assert.match(
      answer.body.message,
      /more permissions than you have.*(audit_log\.read|billing\.write)/,
    );
  }
  assert.equal((await entryOf(api, "token.rotate")).outcome, "failure");
  assert.equal((await asAdmin("POST", path, { name: "fine", role: "admin" })).status, 201);
  assert.equal((await asAdmin("POST", path, { name: "fine", role: "member" })).status, 201);
  // An account cannot raise its own role either, and one with few rights cannot pass on others.
  const few = await api.call("POST", path, {
    body: { name: "few", permissions: ["tokens.write", "apps.read"] },
  });
  const withFew = { token: few.body.token };
  const lifted = await api.call("PATCH", `${path}/${few.body.id}`, {
    ...withFew,
    body: { role: "owner" },
  });
  assert.equal(lifted.status, 403);
  const key = await api.call("POST", `/v2/projects/${api.projectId}/api-keys`, {
    ...withFew,
    body: { name: "k" },
  });
  assert.equal(key.status, 403, "it may not call apps");
  assert.equal(
    (await asAdmin("DELETE", one, undefined)).status,
    200,
    "who may revoke tokens may revoke any",
  );
});

test("changed rights hold for tokens that are out there", async (t) => {
  const api = await startManagementApi(t);
  const made = await api.call("POST", accountsPath(api), { body: { name: "ci", role: "member" } });
  const { token, id } = made.body;
  const apps = (): Promise<Json> =>
    api.call("GET", `/v2/projects/${api.projectId}/apps`, { token });
  assert.equal((await apps()).status, 200);
  const changed = await api.call("PATCH", `${accountsPath(api)}/${id}`, {
    body: { name: "money", permissions: ["billing.read"] },
  });
  assert.deepEqual([changed.status, changed.body.name, changed.body.role], [200, "money", null]);
  await until("it lost its right", async () => (await apps()).status === 403);
  const { changes } = await entryOf(api, "token.update");
  assert.deepEqual(changes, {
    name: { old: "ci", new: "money" },
    role: { old: "member", new: null },
    permissions: { old: null, new: ["billing.read"] },
  });
  const nothing = await api.call("PATCH", `${accountsPath(api)}/${id}`, { body: {} });
  assert.equal(nothing.status, 400);
});

test("a rotation gives a second token of the same account; the first ends with the overlap", async (t) => {
  const clock = new VirtualClock();
  const api = await startManagementApi(t, { clock });
  const path = accountsPath(api);
  const end = new Date(clock.now() + 10 * dayMs).toISOString();
  const made = await api.call("POST", path, {
    body: { name: "ci", role: "owner", expires_at: end },
  });
  const { token: first, id } = made.body;
  await clock.advance(dayMs);
  const rotated = await api.call("POST", `${path}/${id}/rotate`, {
    body: { overlap_seconds: 3600 },
  });
  assert.equal(rotated.status, 201);
  const { token: second } = rotated.body;
  assert.notEqual(second, first);
  assert.equal(rotated.body.id, id);
  assert.deepEqual(
    rotated.body.tokens.map((one: Json) => one.state),
    ["active", "active"],
  );
  assert.equal(Date.parse(rotated.body.expires_at), clock.now() + 10 * dayMs, "for ten days again");
  const status = async (token: string): Promise<number> =>
    (await api.call("GET", path, { token })).status;
  assert.deepEqual([await status(first), await status(second)], [200, 200]);

  const third = await api.call("POST", `${path}/${id}/rotate`);
  assert.equal(third.status, 409, "at most two are valid");
  await clock.advance(3_601_000);
  assert.deepEqual([await status(first), await status(second)], [401, 200]);
  const again = await api.call("POST", `${path}/${id}/rotate`, { body: { overlap_seconds: 0 } });
  assert.equal(again.status, 201);
  await until("the second ended at once", async () => (await status(second)) === 401);
  assert.equal(await status(again.body.token), 200);
  assert.deepEqual(
    again.body.tokens.map((one: Json) => one.state),
    ["active", "revoked", "expired"],
  );
  const { changes, actor_name } = await entryOf(api, "token.rotate");
  assert.deepEqual([changes.tokenId.new, actor_name], [again.body.tokens[0].id, "owner"]);
});

test("rotations at the same time leave two valid tokens at most", async (t) => {
  const api = await startManagementApi(t);
  const path = accountsPath(api);
  const made = await api.call("POST", path, { body: { name: "ci", role: "owner" } });
  const rotate = (): Promise<Json> =>
    api.call("POST", `${path}/${made.body.id}/rotate`, { body: {} });
  const answers = await Promise.all(Array.from({ length: 6 }, rotate));
  assert.deepEqual(
    answers.map((answer) => answer.status).toSorted(),
    [201, 409, 409, 409, 409, 409],
  );
  const [account] = (await api.call("GET", path)).body.filter(
    (one: Json) => one.id === made.body.id,
  );
  assert.equal(account.tokens.filter((one: Json) => one.state === "active").length, 2);
});

test("an account that has expired can be rotated, one that was revoked cannot", async (t) => {
  const clock = new VirtualClock();
  const api = await startManagementApi(t, { clock });
  const path = accountsPath(api);
  const end = new Date(clock.now() + dayMs).toISOString();
  const made = await api.call("POST", path, {
    body: { name: "ci", role: "owner", expires_at: end },
  });
  const one = `${path}/${made.body.id}`;
  await clock.advance(2 * dayMs);
  const [listed] = (await api.call("GET", path)).body.filter(
    (account: Json) => account.name === "ci",
  );
  assert.equal(listed.state, "expired");
  const rotated = await api.call("POST", `${one}/rotate`, { body: { expires_at: null } });
  assert.deepEqual(
    [rotated.status, rotated.body.state, rotated.body.expires_at],
    [201, "active", null],
  );
  const { token } = rotated.body;
  assert.equal((await api.call("GET", path, { token })).status, 200);
  const revoked = await api.call("DELETE", one);
  assert.deepEqual([revoked.status, revoked.body.state], [200, "revoked"]);
  await until("it is refused", async () => (await api.call("GET", path, { token })).status === 401);
  for (const [method, at] of [
    ["POST", `${one}/rotate`],
    ["DELETE", one],
    ["PATCH", one],
  ] as const) {
    const body = method === "PATCH" ? { name: "x" } : undefined;
    assert.equal((await api.call(method, at, { body })).status, 404, method);
  }
});

test("accounts of other projects and kinds are not there", async (t) => {
  const api = await startManagementApi(t);
  const projectId = await api.addProject("other");
  const token = await api.issue({ kind: "service_account", projectId, name: "elsewhere" });
  const elsewhere = decodeJwt(token).jti ?? "";
  const inference = decodeJwt(await api.issue({ kind: "inference" })).jti ?? "";
  for (const id of [
    elsewhere,
    inference,
    "00000000-0000-4000-8000-000000000000",
    "nonsense",
    "' or true --",
  ]) {
    const one = `${accountsPath(api)}/${encodeURIComponent(id)}`;
    assert.equal((await api.call("DELETE", one)).status, 404, id);
    assert.equal((await api.call("POST", `${one}/rotate`)).status, 404, id);
  }
  assert.equal(
    (await api.call("GET", accountsPath(api), { token })).status,
    404,
    "nor is this project for it",
  );
  assert.equal(
    (await api.call("GET", `/v2/projects/${projectId}/service-accounts`, { token })).status,
    200,
  );
});
