// Tests of where requests come from: who is believed, and what is made of nonsense.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TrustedProxies } from "./trusted-proxies.ts";

const proxies = new TrustedProxies(["10.0.0.0/8", "192.0.2.7", "fd00::/8", "::1"]);

const rows: readonly (readonly [peer: string, forwardedFor: string | undefined, client: string])[] = [
  ["10.1.2.3", undefined, "10.1.2.3"],
  ["10.1.2.3", "198.51.100.1", "198.51.100.1"],
  ["::ffff:10.1.2.3", "198.51.100.1", "198.51.100.1"],
  ["192.0.2.7", "198.51.100.1", "198.51.100.1"],
  ["fd00::1", "2001:db8::1", "2001:db8::1"],
  // What the client itself says stands before what the proxy has added.
  ["10.1.2.3", "203.0.113.9, 198.51.100.1", "198.51.100.1"],
  ["10.1.2.3", "203.0.113.9,198.51.100.1 , 10.9.9.9", "198.51.100.1"],
  ["10.1.2.3", "10.8.8.8, 10.9.9.9", "10.8.8.8"],
  // Nobody else is believed.
  ["192.0.2.8", "198.51.100.1", "192.0.2.8"],
  ["unknown", "198.51.100.1", "unknown"],
  // What is no address is nobody's.
  ["10.1.2.3", "", "10.1.2.3"],
  ["10.1.2.3", "a made up name", "10.1.2.3"],
  ["10.1.2.3", "198.51.100.1, unknown", "10.1.2.3"],
  ["10.1.2.3", "198.51.100.1:4711", "10.1.2.3"],
];

test("the last address that no trusted proxy has is the client's", () => {
  for (const [peer, forwardedFor, client] of rows) {
    for (let round = 0; round < 2; round++) {
      assert.equal(proxies.clientAddress(peer, forwardedFor), client, `${peer} says ${forwardedFor}`);
    }
  }
});
