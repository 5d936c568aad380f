// The settings of the HTTPS port.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConfigRefused, readConfig } from "./config.ts";

const certificate = "SLIPWAY_TLS_CERTIFICATE";
const key = "SLIPWAY_TLS_KEY";
const url = { SLIPWAY_PUBLIC_URL: "https://slipway.example.org" };

test("a certificate and its key open the HTTPS port, several pairs in their order", () => {
  assert.equal(readConfig({}).tls, null);
  const one = readConfig({ ...url, [certificate]: "a.pem", [key]: "a.key" }).tls;
  const first = { certificateFile: "a.pem", keyFile: "a.key" };
  assert.deepEqual(one, {
    port: 443,
    files: [first],
    acme: null,
    hstsSeconds: 0,
    redirects: false,
  });
  const two = readConfig({
    ...url,
    [certificate]: "a.pem, b.pem",
    [key]: "a.key,b.key",
    SLIPWAY_TLS_PORT: "8443",
    SLIPWAY_HSTS_SECONDS: "3600",
    SLIPWAY_REDIRECT_TO_HTTPS: "true",
  }).tls;
  const files = [first, { certificateFile: "b.pem", keyFile: "b.key" }];
  assert.deepEqual(two, { port: 8443, files, acme: null, hstsSeconds: 3600, redirects: true });
});

test("settings of HTTPS that cannot work are refused, each with its reason", () => {
  const pair = { [certificate]: "a.pem", [key]: "a.key" };
  const cases: [Record<string, string>, RegExp][] = [
    [{ ...url, [certificate]: "a.pem" }, /must name the same number of files, but name 1 and 0/],
    [{ ...url, [key]: "a.key" }, /but name 0 and 1/],
    [pair, /SLIPWAY_PUBLIC_URL must be the https URL .* it is not set\./],
    [{ ...pair, SLIPWAY_PUBLIC_URL: "http://a.test" }, /it is "http:\/\/a\.test"\./],
    [{ SLIPWAY_HSTS_SECONDS: "60" }, /SLIPWAY_HSTS_SECONDS is set, but neither SLIPWAY_TLS_CERT/],
    [{ SLIPWAY_REDIRECT_TO_HTTPS: "true" }, /SLIPWAY_REDIRECT_TO_HTTPS is set, but/],
    [{ ...url, ...pair, SLIPWAY_TLS_PORT: "70000" }, /SLIPWAY_TLS_PORT is "70000"/],
  ];
  for (const [environment, message] of cases)
    assert.throws(
      () => readConfig(environment),
      (error) => error instanceof ConfigRefused && message.test(error.message),
    );
});

test("certificates are requested only with a mail address and agreement to the terms", () => {
  const email = { SLIPWAY_ACME_EMAIL: "operator@example.org" };
  const agreed = { ...email, SLIPWAY_ACME_AGREE_TO_TERMS: "true" };
  const acme = readConfig({ ...url, ...agreed }).tls?.acme;
  assert.equal(acme?.directoryUrl, "https://acme-v02.api.letsencrypt.org/directory");
  assert.equal(acme.challenge, "http-01");
  assert.equal(acme.externalAccount, null);
  assert.throws(() => readConfig({ ...url, ...email }), /SLIPWAY_ACME_AGREE_TO_TERMS=true/);
  assert.throws(
    () => readConfig({ ...url, SLIPWAY_ACME_AGREE_TO_TERMS: "true" }),
    /SLIPWAY_ACME_EMAIL is not/,
  );
  assert.throws(() => readConfig(agreed), /SLIPWAY_ACME_EMAIL is set, so SLIPWAY_PUBLIC_URL/);
  assert.throws(
    () => readConfig({ ...url, ...agreed, SLIPWAY_ACME_EXTERNAL_KEY_ID: "k" }),
    /need each other/,
  );
  for (const host of ["192.0.2.7", "[2001:db8::7]", "localhost", "slipway.localhost"]) {
    const byAddress = { ...agreed, SLIPWAY_PUBLIC_URL: `https://${host}` };
    assert.throws(
      () => readConfig(byAddress),
      /SLIPWAY_PUBLIC_URL must have a host name that DNS knows.*SLIPWAY_TLS_CERTIFICATE/,
    );
    const withFiles = { ...byAddress, [certificate]: "a.pem", [key]: "a.key" };
    assert.equal(readConfig(withFiles).tls?.acme?.email, email.SLIPWAY_ACME_EMAIL);
  }
});
