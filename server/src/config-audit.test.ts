// The operator's receiver of the audit log in the settings: what is taken and what is refused,
// without showing it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "./config.ts";

const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;

test("a URL alone, or with a secret, is taken", () => {
  assert.equal(readConfig({}).auditForward, null);
  const url = "https://collector.internal:8443/audit?key=1";
  const alone = readConfig({ SLIPWAY_AUDIT_FORWARD_URL: url }).auditForward;
  assert.deepEqual([alone?.url.reveal(), alone?.key], [url, null]);
  const signed = readConfig({
    SLIPWAY_AUDIT_FORWARD_URL: url,
    SLIPWAY_AUDIT_FORWARD_SECRET: secret,
  }).auditForward;
  assert.deepEqual(signed?.key, Buffer.alloc(32, 1));
});

test("everything else is refused by name, and its value is not shown", () => {
  for (const [url, given, name] of [
    ["", secret, /^SLIPWAY_AUDIT_FORWARD_SECRET is set, but SLIPWAY_AUDIT_FORWARD_URL is not/],
    ["ftp://hidden/", "", /^SLIPWAY_AUDIT_FORWARD_URL must be an http or https URL/],
    ["https://user@hidden/", "", /^SLIPWAY_AUDIT_FORWARD_URL must be/],
    ["https://hidden/#part", "", /^SLIPWAY_AUDIT_FORWARD_URL must be/],
    ["https://collector/", "hidden", /^SLIPWAY_AUDIT_FORWARD_SECRET must be whsec_/],
  ] as const) {
    const environment = { SLIPWAY_AUDIT_FORWARD_URL: url, SLIPWAY_AUDIT_FORWARD_SECRET: given };
    assert.throws(
      () => readConfig(environment),
      (error: Error) => name.test(error.message) && !/hidden/.test(error.message),
    );
  }
});
