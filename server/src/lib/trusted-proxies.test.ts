// Tests of where requests come from: who is believed, and what is made of nonsense.
import assert from "node:assert/strict";
import { test } from "node:test";
import { believed, TrustedProxies } from "./trusted-proxies.ts";

const trusted = new TrustedProxies(["10.0.0.0/8", "192.0.2.7", "fd00::/8", "::1"]);

type Row = readonly [
  peer: string | undefined,
  forwardedFor: string | undefined,
  client: string,
  proxies: number,
];
const rows: readonly Row[] = [
  ["10.1.2.3", undefined, "10.1.2.3", 1],
  ["10.1.2.3", "198.51.100.1", "198.51.100.1", 1],
  ["::ffff:10.1.2.3", "198.51.100.1", "198.51.100.1", 1],
  ["192.0.2.7", "198.51.100.1", "198.51.100.1", 1],
  ["fd00::1", "2001:DB8::1", "2001:db8::1", 1],
  ["10.1.2.3", "::ffff:198.51.100.1", "198.51.100.1", 1],
  // What the client itself says stands before what the proxy has added.
  ["10.1.2.3", "203.0.113.9, 198.51.100.1", "198.51.100.1", 1],
  ["10.1.2.3", "203.0.113.9,198.51.100.1 , 10.9.9.9", "198.51.100.1", 2],
  ["10.1.2.3", "10.8.8.8, 10.9.9.9", "10.8.8.8", 3],
  // Some proxies add the client's port.
  ["10.1.2.3", "198.51.100.1:4711", "198.51.100.1", 1],
  ["10.1.2.3", "[2001:db8::1]:4711", "2001:db8::1", 1],
  ["10.1.2.3", "[2001:db8::1], 10.9.9.9:80", "2001:db8::1", 2],
  // Nobody else is believed.
  ["192.0.2.8", "198.51.100.1", "192.0.2.8", 0],
  ["::2", "198.51.100.1", "::2", 0],
  ["fe80::1%eth0", "198.51.100.1", "fe80::1%eth0", 0],
  [undefined, "198.51.100.1", "unknown", 0],
  // What is no address is nobody's, and nothing before it is looked at.
  ["10.1.2.3", "", "10.1.2.3", 1],
  ["10.1.2.3", "a made up name", "10.1.2.3", 1],
  ["10.1.2.3", "198.51.100.1, unknown", "10.1.2.3", 1],
  ["10.1.2.3", "198.51.100.1, , 10.9.9.9", "10.9.9.9", 2],
  ["10.1.2.3", "198.51.100.1, 10.9.9.9:80:80", "10.1.2.3", 1],
  ["10.1.2.3", "198.51.100.1, 999.1.1.1", "10.1.2.3", 1],
];

test("the last address that no trusted proxy has is the client's", () => {
  for (const [remoteAddress, forwardedFor, address, proxies] of rows) {
    const peer = remoteAddress ?? "unknown";
    for (const isEncrypted of [false, true]) {
      const connection = { remoteAddress, encrypted: isEncrypted };
      const origin = trusted.peerOf(connection).originOf(forwardedFor);
      const expected = { address, peer, proxies, isEncrypted };
      assert.deepEqual(origin, expected, `${peer} says ${forwardedFor}`);
    }
  }
});

test("a connection's other end is judged once", () => {
  const connection = { remoteAddress: "10.1.2.3" };
  const peer = trusted.peerOf(connection);
  // As a socket that was closed meanwhile.
  Reflect.deleteProperty(connection, "remoteAddress");
  assert.equal(trusted.peerOf(connection), peer);
  const stranger = trusted.peerOf({ remoteAddress: "192.0.2.8" });
  assert.equal(
    stranger.originOf("198.51.100.1"),
    stranger.originOf(undefined),
    "nothing is read of what it says",
  );
});

test("of a field that proxies add to, what the client wrote is not taken", () => {
  const origin = (proxies: number) => ({
    address: "198.51.100.1",
    peer: "10.1.2.3",
    proxies,
    isEncrypted: false,
  });
  const form = /^https?$/;
  assert.equal(believed(origin(0), "https", form), undefined);
  assert.equal(believed(origin(1), undefined, form), undefined);
  assert.equal(believed(origin(1), "https", form), "https");
  assert.equal(
    believed(origin(1), "https, http", form),
    "http",
    "the client's own, and the proxy's",
  );
  assert.equal(
    believed(origin(2), "http, https, http", form),
    "https",
    "that of the first proxy, which is trusted",
  );
  assert.equal(believed(origin(3), "https", form), "https", "one proxy sets it for all");
  for (const value of ["", "gopher", "https;", "http https"])
    assert.equal(believed(origin(1), value, form), undefined);
});
