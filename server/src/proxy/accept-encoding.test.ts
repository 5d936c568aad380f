// What apps are told about codings when the caller does not receive the answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { askingForIdentity, refusesIdentity } from "./accept-encoding.ts";

test("codings that clients ask for by themselves are not passed on", () => {
  for (const value of [
    "gzip, deflate",
    "gzip, deflate, br, zstd",
    "*",
    "br;q=1.0, gzip;q=0.8, *;q=0.1",
    "identity",
    "",
  ]) {
    const lines = `Host: app\r\nAccept-Encoding: ${value}\r\nX-A: 1\r\naccept-encoding: br\r\n`;
    assert.equal(
      askingForIdentity(lines),
      "Accept-Encoding: identity\r\nHost: app\r\nX-A: 1\r\n",
      value,
    );
  }
  assert.equal(askingForIdentity("Host: app\r\n"), "Accept-Encoding: identity\r\nHost: app\r\n");
});

test("a caller who refuses an answer without a coding gets what was asked for", () => {
  for (const value of ["gzip, identity;q=0", "gzip;q=0.5, *;q=0", "br, identity ; q=0.0"]) {
    const lines = `Host: app\r\nAccept-Encoding: ${value}\r\n`;
    assert.equal(askingForIdentity(lines), lines, value);
  }
  assert.equal(refusesIdentity("Accept-Encoding: *;q=0, identity;q=1\r\n"), false);
  assert.equal(refusesIdentity("Accept-Encoding: gzip\r\nAccept-Encoding: identity;q=0\r\n"), true);
});
