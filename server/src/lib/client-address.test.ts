// Forms of addresses: one client is one, however its address is written.
import assert from "node:assert/strict";
import { test } from "node:test";
import { networkOf, plainAddress } from "./client-address.ts";

test("an IPv4 address in IPv6 form is the IPv4 address", () => {
  assert.equal(plainAddress("::ffff:192.0.2.7"), "192.0.2.7");
  assert.equal(plainAddress("192.0.2.7"), "192.0.2.7");
  assert.equal(plainAddress("2001:DB8::1"), "2001:db8::1");
  assert.equal(plainAddress("unknown"), "unknown");
});

test("a client with IPv6 is counted by its 64 bits of network, one with IPv4 by its address", () => {
  assert.equal(networkOf("2001:db8:0:1:aaaa::1"), networkOf("2001:db8:0:1:bbbb::2"));
  assert.notEqual(networkOf("2001:db8:0:1::1"), networkOf("2001:db8:0:2::1"));
  assert.equal(networkOf("2001:db8:0:1:aaaa::1"), "2001:db8:0:1::/64");
  assert.equal(networkOf("fe80::1%eth0"), "fe80::/64");
  assert.equal(networkOf("::ffff:192.0.2.7"), "192.0.2.7");
  assert.equal(networkOf("unknown"), "unknown");
});

for (const [address, network] of [
  ["192.0.2.7", "192.0.2.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8:1:2::9", "2001:db8:1:2::/64"],
  ["2001:0db8:0001:0002::9", "2001:db8:1:2::/64"],
  ["2001:db8::", "2001:db8::/64"],
  ["::1", "::/64"],
  ["", ""],
] as const) {
  test(`the address "${address}" counts as "${network}"`, () =>
    assert.equal(networkOf(address), network));
}
