// Codes of device logins: their form, and how they are read when a person has typed them.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { hashOfDeviceCode, newDeviceCode, newUserCode, readUserCode } from "./device-codes.ts";

test("a code that was made is read as itself, also in small letters, without the dash and with spaces", () => {
  for (let round = 0; round < 200; round++) {
    const code = newUserCode();
    assert.match(code, /^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/);
    for (const typed of [
      code,
      code.toLowerCase(),
      code.replace("-", ""),
      ` ${code.replace("-", " ")} `,
    ]) {
      assert.equal(readUserCode(typed), code);
    }
  }
});

test("what cannot be a code is none", () => {
  for (const typed of [
    "",
    "ABCD-EFGH",
    "BCDF-GHJ",
    "BCDF-GHJKL",
    "BCDF_GHJK",
    "1234-5678",
    "ßßßß-ßßßß",
  ]) {
    assert.equal(readUserCode(typed), null, typed);
  }
  fc.assert(
    fc.property(fc.string(), (typed) => {
      const code = readUserCode(typed);
      assert.ok(code === null || /^[A-Z]{4}-[A-Z]{4}$/.test(code));
    }),
  );
});

test("device codes have 256 bits, differ, and are stored as a hash", () => {
  const codes = new Set(Array.from({ length: 100 }, newDeviceCode));
  assert.equal(codes.size, 100);
  for (const code of codes) {
    assert.equal(Buffer.from(code, "base64url").length, 32);
    assert.equal(hashOfDeviceCode(code).includes(code), false);
  }
});
