// Two whole platforms on one database: what one of them ends, the other refuses, at the management API and
// for calls of apps, though it has the token in memory.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { copyFile, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { emptyDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import type { Json } from "#test/support/management-api.ts";
import { PlatformProcess, startPlatform } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";

async function startTwo(
  t: TestContext,
  more: Record<string, string> = {},
): Promise<{ first: PlatformProcess; second: PlatformProcess }> {
  const settings = {
    SLIPWAY_DATABASE_URL: (await emptyDatabase(t)).reveal(),
    SLIPWAY_SECRET_KEY: randomBytes(32).toString("hex"),
    SLIPWAY_DATABASE_CONNECTIONS: "4",
    ...more,
  };
  const first = await startPlatform(t, settings);
  const dataDir = await mkdtemp(join(tmpdir(), "slipway-test-"));
  // Only the platform that made the first project wrote it.
  await copyFile(join(first.dataDir, "bootstrap.json"), join(dataDir, "bootstrap.json"));
  const second = new PlatformProcess(dataDir, settings);
  t.after(() => second.remove());
  await second.restart();
  return { first, second };
}

async function ask(
  platform: PlatformProcess,
  path: string,
  given: { method?: string; token: string; body?: object },
): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${platform.bootstrap.baseUrl}${path}`, {
    method: given.method ?? "GET",
    headers: { authorization: `Bearer ${given.token}`, "content-type": "application/json" },
    ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
  });
  return { status: response.status, body: await response.json() };
}

test("what one platform ends the other refuses", async (t) => {
  const { first, second } = await startTwo(t);
  const { projectId, serviceAccountToken: owner, operatorToken: operator } = first.bootstrap;
  const project = `/v2/projects/${projectId}`;
  const make = async (path: string, body: object, token = owner): Promise<Json> => {
    const made = await ask(first, path, { method: "POST", token, body });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return made.body;
  };
  const refusedAfter = async (what: string, tries: () => Promise<number>, status: number): Promise<void> => {
    const atMs = systemClock.monotonicMs();
    await until(`${what} is refused by the other platform`, async () => (await tries()) === status);
    t.diagnostic(`${what}: refused after ${Math.round(systemClock.monotonicMs() - atMs)} ms`);
  };

  const account = await make(`${project}/service-accounts`, { name: "ci", role: "member" });
  const apps = async (): Promise<number> => (await ask(second, `${project}/apps`, account)).status;
  assert.equal(await apps(), 200);
  assert.equal(
    (await ask(first, `${project}/service-accounts/${account.id}`, { method: "DELETE", token: owner })).status,
    200,
  );
  await refusedAfter("a service account", apps, 401);

  const key = await make(`${project}/api-keys`, { name: "callers" });
  // There is no such app, which only those hear whose token is valid.
  const call = async (): Promise<number> =>
    (await ask(second, `/v4/${projectId}/none/run`, { ...key, method: "POST" })).status;
  assert.equal(await call(), 404);
  await ask(first, `${project}/api-keys/${key.id}`, { method: "DELETE", token: owner });
  await refusedAfter("a token for calling apps", call, 401);

  const rotated = await make(`${project}/api-keys`, { name: "callers" });
  const callOld = async (): Promise<number> =>
    (await ask(second, `/v4/${projectId}/none/run`, { ...rotated, method: "POST" })).status;
  assert.equal(await callOld(), 404);
  await make(`${project}/api-keys/${rotated.id}/rotate`, { overlap_seconds: 0 });
  await refusedAfter("a token that was rotated without an overlap", callOld, 401);

  const other = await make("/v2/operator/tokens", { name: "second" }, operator);
  const [oldKey] = (await ask(first, "/v2/operator/signing-keys", { token: operator })).body;
  await make("/v2/operator/signing-keys", {}, operator);
  const fresh = await make("/v2/operator/tokens", { name: "by the new key" }, operator);
  const keysOf = async (token: string): Promise<number> =>
    (await ask(second, "/v2/operator/signing-keys", { token })).status;
  assert.deepEqual([await keysOf(other.token), await keysOf(fresh.token)], [200, 200], "both keys verify, there too");
  const refused = await ask(first, `/v2/operator/signing-keys/${oldKey.id}`, { method: "DELETE", token: fresh.token });
  assert.equal(refused.status, 409, JSON.stringify(refused.body));
  const path = `/v2/operator/signing-keys/${oldKey.id}?force=true`;
  assert.equal((await ask(first, path, { method: "DELETE", token: fresh.token })).status, 200);
  await refusedAfter("what a withdrawn key signed", () => keysOf(other.token), 401);
  assert.equal(await keysOf(fresh.token), 200);
  const published = (await ask(second, "/.well-known/jwks.json", { token: fresh.token })).body;
  assert.ok(!published.keys.some((one: Json) => one.kid === oldKey.id), "it is published no more");
});

test("a platform that stops writes when tokens were used last; one with too many bad tokens answers 429 to calls of apps too", async (t) => {
  const { first, second } = await startTwo(t, { SLIPWAY_FAILED_TOKENS_PER_MINUTE: "3" });
  const { projectId, serviceAccountToken: owner, inferenceToken: known } = first.bootstrap;
  const path = `/v2/projects/${projectId}/service-accounts`;
  const made = await ask(first, path, { method: "POST", token: owner, body: { name: "ci", role: "admin" } });
  assert.equal((await ask(second, path, made.body)).status, 200);

  const call = async (token: string): Promise<{ status: number; body: Json }> =>
    await ask(second, `/v4/${projectId}/none/run`, { method: "POST", token });
  assert.equal((await call(known)).status, 404, "there is no such app, which only a known caller hears");
  const statuses = [];
  for (let index = 0; index < 5; index++) statuses.push((await call(`bad.token.${index}`)).status);
  assert.deepEqual(statuses, [401, 401, 401, 429, 429]);
  assert.equal((await call(known)).status, 404);
  const unknown = await ask(second, path, { token: owner });
  assert.equal(unknown.status, 429, "the API counts with it");
  assert.match(unknown.body.message, /try again in \d+ s/);

  await second.end("SIGTERM");
  const [account] = (await ask(first, path, { token: owner })).body.filter((one: Json) => one.id === made.body.id);
  assert.equal(account.last_used_address, "127.0.0.1");
});
