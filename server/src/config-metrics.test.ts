// Where metrics are served, in the settings: what is taken, and that others cannot reach it without
// a token.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "./config.ts";

const token = "sixteen-letters-";
const read = (address: string, given = ""): ReturnType<typeof readConfig>["metrics"] =>
  readConfig({ SLIPWAY_METRICS_ADDRESS: address, SLIPWAY_METRICS_TOKEN: given }).metrics;

test("metrics are served nowhere unless an address is given", () => {
  assert.equal(readConfig({}).metrics, null);
  assert.deepEqual(read("127.0.0.1:9464"), { host: "127.0.0.1", port: 9464, token: null });
  assert.deepEqual(read("[::1]:0"), { host: "::1", port: 0, token: null });
  const open = read("0.0.0.0:9464", token);
  assert.deepEqual([open?.host, open?.token?.reveal()], ["0.0.0.0", token]);
});

test("an address that others reach is refused without a token, and no value of one is shown", () => {
  for (const [address, given, why] of [
    [
      "0.0.0.0:9464",
      "",
      /SLIPWAY_METRICS_ADDRESS is "0\.0\.0\.0:9464", which is reachable from other machines: set SLIPWAY_METRICS_TOKEN/,
    ],
    ["metrics.example.org:9464", "", /set SLIPWAY_METRICS_TOKEN/],
    ["127.0.0.1.example.org:9464", "", /set SLIPWAY_METRICS_TOKEN/],
    ["[::]:9464", "", /set SLIPWAY_METRICS_TOKEN/],
    ["9464", "", /must be an address and a port up to 65535/],
    ["127.0.0.1:70000", "", /must be an address and a port/],
    ["http://127.0.0.1:9464", "", /must be an address and a port/],
    ["127.0.0.1:9464", "short", /SLIPWAY_METRICS_TOKEN must be at least 16/],
    ["127.0.0.1:9464", "a secret with spaces", /SLIPWAY_METRICS_TOKEN must be/],
    ["", token, /SLIPWAY_METRICS_ADDRESS is not/],
  ] as const) {
    assert.throws(
      () => read(address, given),
      (error: Error) => {
        assert.match(error.message, why, address);
        return given === "" || !error.message.includes(given);
      },
    );
  }
});
