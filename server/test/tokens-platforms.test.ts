// A platform and a second process on its database that runs no apps: what one of them ends, the
// other refuses, at the management API and for calls of apps, though it has the token in memory.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test, type TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { openApi } from "#platform-management.ts";
import { Proxy } from "#proxy/proxy.ts";
import { createListener } from "#proxy/server.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { emptyDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import type { Json } from "#test/support/management-api.ts";
import { openManagementPlatform } from "#test/support/management-platform.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import { startPlatform } from "#test/support/platform-process.ts";
import { noOtherSockets, proxyAlone } from "#test/support/proxy-alone.ts";
import { until } from "#test/support/until.ts";

/** Where something answers as a platform does. */
type Answering = { readonly baseUrl: string };

/**
 * The management API and the proxy in this process, without a scheduler: it needs no lock on the
 * database.
 */
async function openSecond(
  t: TestContext,
  fixture: { url: Secret; secretKey: string },
): Promise<Answering> {
  let baseUrl = "";
  const platform = await openManagementPlatform(t, { fixture }, ({ appHosts }) => ({
    baseUrl,
    apiUrl: baseUrl,
    dashboardUrl: `${baseUrl}/dashboard`,
    appHosts,
  }));
  const { foundation, identity, settings, calls, routes } = platform;
  const { trustedProxies } = settings;
  const proxy = new Proxy({
    ...proxyAlone,
    routes,
    tokens: identity.tokens,
    view: new ReplicaView(),
    log: silentLog,
    nudge: () => undefined,
    limits: { lineLengthMax: 10, bodyBytesMax: 1_000_000 },
    trustedProxies,
  });
  foundation.notifications.listen("tokens", () => proxy.tokensChanged());
  const { lifecycle } = foundation;
  const stopping = new AbortController().signal;
  const api = await openApi(settings, { ...platform.api, ...calls, lifecycle, stopping });
  const listener = createListener({
    fallbackUpgrade: noOtherSockets,
    isAppHost: (host) => proxy.admission.isAppHost(host),
    handle: (request, response) => proxy.handle(request, response),
    handlePlain: (client, request) => proxy.handleRead(client, request),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback: (request, response) => api.routing(request, response),
    clock: systemClock,
    trustedProxies,
  });
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  t.after(async () => {
    proxy.close();
    await api.close();
    await listener.close();
  });
  baseUrl = `http://127.0.0.1:${port}`;
  return { baseUrl };
}

async function ask(
  { baseUrl }: Answering,
  path: string,
  given: { method?: string; token: string; body?: object },
): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${baseUrl}${path}`, {
    method: given.method ?? "GET",
    headers: { authorization: `Bearer ${given.token}`, "content-type": "application/json" },
    ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
  });
  return { status: response.status, body: await response.json() };
}

test("what one platform ends the other refuses", async (t) => {
  const url = await emptyDatabase(t);
  const secretKey = randomBytes(32).toString("hex");
  const settings = { SLIPWAY_DATABASE_URL: url.reveal(), SLIPWAY_SECRET_KEY: secretKey };
  const platform = await startPlatform(t, { ...settings, SLIPWAY_DATABASE_CONNECTIONS: "4" });
  const first = platform.bootstrap;
  const second = await openSecond(t, { url, secretKey });
  const { projectId, serviceAccountToken: owner, operatorToken: operator } = first;
  const project = `/v2/projects/${projectId}`;
  const make = async (path: string, body: object, token = owner): Promise<Json> => {
    const made = await ask(first, path, { method: "POST", token, body });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return made.body;
  };
  const refusedAfter = async (
    what: string,
    tries: () => Promise<number>,
    status: number,
  ): Promise<void> => {
    const atMs = systemClock.monotonicMs();
    await until(`${what} is refused by the other platform`, async () => (await tries()) === status);
    t.diagnostic(`${what}: refused after ${Math.round(systemClock.monotonicMs() - atMs)} ms`);
  };

  const account = await make(`${project}/service-accounts`, { name: "ci", role: "member" });
  const apps = async (): Promise<number> => (await ask(second, `${project}/apps`, account)).status;
  assert.equal(await apps(), 200);
  assert.equal(
    (
      await ask(first, `${project}/service-accounts/${account.id}`, {
        method: "DELETE",
        token: owner,
      })
    ).status,
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
  assert.deepEqual(
    [await keysOf(other.token), await keysOf(fresh.token)],
    [200, 200],
    "both keys verify, there too",
  );
  const refused = await ask(first, `/v2/operator/signing-keys/${oldKey.id}`, {
    method: "DELETE",
    token: fresh.token,
  });
  assert.equal(refused.status, 409, JSON.stringify(refused.body));
  const path = `/v2/operator/signing-keys/${oldKey.id}?force=true`;
  assert.equal((await ask(first, path, { method: "DELETE", token: fresh.token })).status, 200);
  await refusedAfter("what a withdrawn key signed", () => keysOf(other.token), 401);
  assert.equal(await keysOf(fresh.token), 200);
  const published = (await ask(second, "/.well-known/jwks.json", { token: fresh.token })).body;
  assert.ok(!published.keys.some((one: Json) => one.kid === oldKey.id), "it is published no more");
});

test("a platform that stops writes when tokens were used last; one with too many bad tokens answers 429 to calls of apps too", async (t) => {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_FAILED_TOKENS_PER_MINUTE: "3" });
  const { projectId, serviceAccountToken: owner, inferenceToken: known } = platform.bootstrap;
  const path = `/v2/projects/${projectId}/service-accounts`;
  const made = await ask(platform.bootstrap, path, {
    method: "POST",
    token: owner,
    body: { name: "ci", role: "admin" },
  });
  // A new process knows no token.
  await platform.end("SIGTERM");
  await platform.restart();
  assert.equal((await ask(platform.bootstrap, path, made.body)).status, 200);

  const call = async (token: string): Promise<{ status: number; body: Json }> =>
    await ask(platform.bootstrap, `/v4/${projectId}/none/run`, { method: "POST", token });
  assert.equal(
    (await call(known)).status,
    404,
    "there is no such app, which only a known caller hears",
  );
  const statuses = [];
  for (let index = 0; index < 5; index++) statuses.push((await call(`bad.token.${index}`)).status);
  assert.deepEqual(statuses, [401, 401, 401, 429, 429]);
  assert.equal((await call(known)).status, 404);
  const unknown = await ask(platform.bootstrap, path, { token: owner });
  assert.equal(unknown.status, 429, "the API counts with it");
  assert.match(unknown.body.message, /try again in \d+ s/);

  await platform.end("SIGTERM");
  await platform.restart();
  const accounts = await ask(platform.bootstrap, path, { token: owner });
  const [account] = accounts.body.filter((one: Json) => one.id === made.body.id);
  assert.equal(account.last_used_address, "127.0.0.1");
});
