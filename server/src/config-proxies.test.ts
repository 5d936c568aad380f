// The settings of proxies before the platform.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConfigRefused, readConfig } from "./config.ts";

const on = { SLIPWAY_PROXY_PROTOCOL: "true" };

test("trusted proxies may begin their connections with a header", () => {
  const proxies = { SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/8, 127.0.0.2" };
  assert.equal(readConfig(proxies).proxyProtocol, false);
  assert.equal(readConfig({ ...proxies, ...on }).proxyProtocol, true);
});

test("headers are not asked for where commands on this machine would have to send them", () => {
  const cases: [Record<string, string>, RegExp][] = [
    [{}, /SLIPWAY_TRUSTED_PROXIES is not\./],
    [{ SLIPWAY_TRUSTED_PROXIES: "127.0.0.0/8" }, /contains 127\.0\.0\.1, .* such as 127\.0\.0\.2/],
    [{ SLIPWAY_TRUSTED_PROXIES: "10.0.0.1,::1" }, /contains ::1,/],
    [{ SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/8", SLIPWAY_HOST: "10.0.0.5" }, /contains 10\.0\.0\.5,/],
  ];
  for (const [environment, message] of cases)
    assert.throws(
      () => readConfig({ ...environment, ...on }),
      (error) => error instanceof ConfigRefused && message.test(error.message),
    );
});

test("apps in networks of their own are no trusted proxies, unless a range within those names them", () => {
  const given = { SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/8, 10.217.4.0/24, ::ffff:0:0/96" };
  const { trustedProxies } = readConfig(given);
  const trusted = ["10.1.2.3", "10.214.0.1", "10.224.0.1", "10.217.4.5"];
  const apps = ["10.213.4.5", "10.216.0.2", "10.223.255.2", "::ffff:10.213.4.5"];
  assert.deepEqual(
    [...trusted, ...apps].filter((address) => trustedProxies.has(address)),
    trusted,
  );
  const { address } = trustedProxies.peerOf({ remoteAddress: "10.213.4.5" }).originOf("192.0.2.1");
  assert.equal(address, "10.213.4.5");
});
