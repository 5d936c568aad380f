// Refresh tokens are what was signed here, byte for byte.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { Secret } from "#lib/secret.ts";
import { SessionTokens } from "./session-tokens.ts";

const tokens = new SessionTokens(new Secret("a secret of the platform"));
const token = fc.stringMatching(/^[A-Za-z0-9_-]{16,64}$/);

test("what was signed is read back, and nothing that differs in a character", () => {
  const property = fc.property(
    token,
    fc.nat(),
    fc.constantFrom(..."AZaz09_-.= ".split("")),
    (plain, at, letter) => {
      const signed = tokens.sign(plain).reveal();
      assert.equal(tokens.read(signed), plain);
      const index = at % signed.length;
      const altered = signed.slice(0, index) + letter + signed.slice(index + 1);
      if (altered !== signed) assert.equal(tokens.read(altered), null, altered);
    },
  );
  fc.assert(property);
});

test("another secret's signature is none", () => {
  const others = new SessionTokens(new Secret(randomBytes(32).toString("hex")));
  assert.equal(tokens.read(others.sign("a-token-of-a-session").reveal()), null);
});

test("the session's token is found in what better-auth sets, and an ended cookie has none", () => {
  const set = (value: string): Headers =>
    new Headers({ "set-cookie": `__Secure-slipway.session_token=${value}; Path=/` });
  assert.equal(tokens.setBy(set(encodeURIComponent("the-token.c2lnbmF0dXJl="))), "the-token");
  assert.equal(tokens.setBy(set("")), null);
  assert.equal(tokens.setBy(new Headers({ "set-cookie": "slipway.state=x.y; Path=/" })), null);
});
