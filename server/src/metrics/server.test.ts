// Who reads metrics without a token: no page of a name that leads to this machine.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { test, type TestContext } from "node:test";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import "#test/support/leftovers.ts";
import { serveMetrics } from "./server.ts";

async function open(t: TestContext, token: Secret | null) {
  const metrics = { text: () => Promise.resolve("slipway_ready 1\n"), contentType: "text/plain" };
  const given = { host: "127.0.0.1", port: 0, token, metrics, log: silentLog };
  const { address, close } = await serveMetrics(given);
  t.after(close);
  return async (host: string, fields: Readonly<Record<string, string>> = {}) => {
    const headers = { host, connection: "close", ...fields };
    const sent = request({ host: "127.0.0.1", port: address.port, path: "/metrics", headers });
    sent.end();
    const [answer] = await once(sent, "response");
    const pieces: Buffer[] = await answer.toArray();
    return { status: answer.statusCode as number, text: Buffer.concat(pieces).toString() };
  };
}

test("without a token metrics are read at an address or localhost, and under no other name", async (t) => {
  const read = await open(t, null);
  for (const host of ["127.0.0.1:9464", "127.0.0.1", "[::1]:9464", "localhost:9464", "LOCALHOST"])
    assert.deepEqual(await read(host), { status: 200, text: "slipway_ready 1\n" }, host);
  for (const host of ["strange.test:9464", "localhost.strange.test", "127.0.0.1.strange.test"]) {
    const { status, text } = await read(host);
    assert.equal(status, 403, host);
    assert.match(text, /set SLIPWAY_METRICS_TOKEN/);
  }
});

test("with a token they are read under every name", async (t) => {
  const read = await open(t, new Secret("a-token-of-monitoring"));
  const authorization = "Bearer a-token-of-monitoring";
  assert.equal((await read("slipway.example.org:9464", { authorization })).status, 200);
  assert.equal((await read("slipway.example.org:9464")).status, 401);
});
