// A domain of an app on a whole platform: DNS proves it, then the app answers on it as on its own
// host name, also after a restart, until the record or the app is gone.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { test } from "node:test";
import { sql } from "kysely";
import { WebSocket } from "ws";
import { connect } from "#test/support/connect.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { startDnsServer } from "#test/support/dns-server.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { deployLoaded } from "#test/support/loaded-app.ts";
import { startPlatform } from "#test/support/platform-process.ts";
import { templateName } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

const name = "shop.example.org";

test("an app answers on a proven domain, and on no other", async (t) => {
  const dns = await startDnsServer(t);
  const git = await startGitServer(t);
  const url = await emptyDatabase(t, { template: templateName });
  const platform = await startPlatform(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_DNS_SERVERS: dns.address,
    SLIPWAY_DOMAIN: "apps.example.net",
    SLIPWAY_DATABASE_URL: url.reveal(),
  });
  await deployLoaded(platform, git, { maxReplicaCount: 1, cooldownPeriodSeconds: 600 });
  const { projectId } = platform.bootstrap;
  const domains = `/v2/projects/${projectId}/apps/loaded/domains`;
  const port = (): string => new URL(platform.bootstrap.baseUrl).port;
  const get = async (path: string, host = name): Promise<string> => {
    const sent = request({ host: "127.0.0.1", port: port(), path, headers: { host } });
    sent.end();
    const [answer] = await once(sent, "response");
    return Buffer.concat(await answer.toArray()).toString();
  };
  const isApp = async (): Promise<boolean> => (await get("/dashboard")) === "v1";

  assert.equal((await platform.api("POST", domains, { name })).body.state, "Pending");
  assert.equal(await isApp(), false);
  dns.names.set(name, { CNAME: `loaded-${projectId}.apps.example.net` });
  const check = async () => (await platform.api("POST", `${domains}/${name}/check`)).body;
  assert.equal((await check()).state, "Validated");
  await until("the app answers on its domain", isApp);

  await t.test("plain calls, streams, and its own path", async () => {
    for (const path of ["/", "/v2/projects", "/healthz", `/v4/${projectId}/loaded/x`])
      assert.equal(await get(path), "v1", path);
    assert.equal(await get("/", `SHOP.example.org:${port()}`), "v1");
    assert.equal(await get("/stream"), "v1 ".repeat(10));
    assert.doesNotMatch(await get("/", "www.shop.example.org"), /^v1$/);
    for (const host of [name, `loaded-${projectId}.apps.example.net`])
      assert.match(await get("/.well-known/acme-challenge/x", host), /reserved for the platform/);
  });
  await t.test("a WebSocket", async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${port()}/socket`, { headers: { host: name } });
    await once(socket, "open");
    socket.send("hello");
    const [message] = await once(socket, "message");
    assert.equal(String(message), "v1");
    socket.close();
    await once(socket, "close");
  });
  await t.test("a restart of the platform", async () => {
    await platform.end("SIGKILL");
    await platform.restart();
    assert.equal(await isApp(), true);
  });
  await t.test("the record is gone for a week", async () => {
    dns.names.delete(name);
    assert.equal((await check()).state, "Validated");
    assert.equal(await isApp(), true);
    const db = await connect(url, 1);
    t.after(() => db.destroy());
    // The loop of the platform finds it by itself.
    await sql`update app_domains set missing_since = missing_since - interval '8 days', check_at = clock_timestamp()`.execute(
      db,
    );
    await until("the domain is no longer the app's", async () => !(await isApp()), {
      deadlineMs: 60_000,
    });
    const { body } = await platform.api("GET", domains);
    assert.equal(body[0].state, "Failed");
  });
  await t.test("the app is deleted", async () => {
    dns.names.set(name, { CNAME: `loaded-${projectId}.apps.example.net` });
    assert.equal((await check()).state, "Validated");
    await until("the app answers again", isApp);
    const deleted = await platform.api("DELETE", `/v2/projects/${projectId}/apps/loaded`);
    assert.equal(deleted.status, 200);
    await until("its domain is free", async () => (await get("/healthz")).includes("ok"));
  });
});
