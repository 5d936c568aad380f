// What counts as a secret that signs.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { makeWebhookSecret, readWebhookSecret } from "./webhook-signature.ts";

test("a secret that was made can be read, and so can every key of 24 to 64 bytes", () => {
  assert.equal(readWebhookSecret(makeWebhookSecret().reveal())?.length, 32);
  for (const length of [24, 25, 26, 64]) {
    const key = randomBytes(length);
    assert.deepEqual(readWebhookSecret(`whsec_${key.toString("base64")}`), key);
    assert.deepEqual(readWebhookSecret(`whsec_${key.toString("base64").replace(/=+$/, "")}`), key);
  }
});

test("what is none is refused", () => {
  const key = randomBytes(32).toString("base64");
  const long = randomBytes(65).toString("base64");
  for (const odd of [
    "",
    "whsec_",
    key,
    `WHSEC_${key}`,
    `whsec_${key}!`,
    `whsec_ ${key}`,
    "whsec_c2hvcnQ=",
    `whsec_${long}`,
  ]) {
    assert.equal(readWebhookSecret(odd), null, odd);
  }
});
