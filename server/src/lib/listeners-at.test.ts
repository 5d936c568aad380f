// Whose socket gets connections to an address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { listenersAt } from "./listeners-at.ts";

const any = "00000000";
const any6 = "0".repeat(32);
const loopback = "0100007F";
const loopback6 = `${"0".repeat(24)}01000000`;
const mapped = `0000000000000000FFFF0000${loopback}`;
/** 10.0.0.5. */
const other = "0500000A";

/** Which users listen for `host` when each address has the socket of a user, from 1 on. */
function usersAt(host: string, ...addresses: readonly string[]): readonly number[] {
  const rows = addresses.map(
    (address, index) => ` 0: ${address}:1B9E ${any}:0000 0A 0:0 00:0 0 ${index + 1} 0 77 1`,
  );
  return listenersAt(rows.join("\n"), { host, port: 7070 }).map(({ userId }) => userId);
}

test("a socket at the very address is before those at all addresses", () => {
  assert.deepEqual(usersAt("127.0.0.1", any, loopback, other, any6), [2]);
  assert.deepEqual(usersAt("127.0.0.1", other, any6, any), [3]);
  assert.deepEqual(usersAt("127.0.0.1", other, any6), [2]);
  assert.deepEqual(usersAt("127.0.0.1", any, mapped), [2]);
  assert.deepEqual(usersAt("::1", any, loopback6, any6), [2]);
  assert.deepEqual(usersAt("::1", any, any6), [2]);
});

test("a socket at another address gets nothing", () => {
  assert.deepEqual(usersAt("127.0.0.1", other, loopback6), []);
  assert.deepEqual(usersAt("::1", any, loopback), []);
});

test("a name may lead to several addresses", () => {
  assert.deepEqual(usersAt("localhost", loopback, loopback6, other), [1, 2]);
  assert.deepEqual(usersAt("slipway.test", loopback, other), [1, 2]);
});
