// Settings of how people sign in: what belongs together, what is refused, and that no secret is
// shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { ConfigRefused, readConfig } from "./config.ts";

const oidc = {
  SLIPWAY_OIDC_ISSUER: "https://id.example.test/",
  SLIPWAY_OIDC_CLIENT_ID: "slipway",
  SLIPWAY_OIDC_CLIENT_SECRET: "an oidc secret",
};

const refused = [
  [{ SLIPWAY_SMTP_URL: "smtp://u:a-secret@mail.example.test" }, /^SLIPWAY_MAIL_FROM is ""/],
  [{ SLIPWAY_MAIL_FROM: "slipway@example.test" }, /^SLIPWAY_SMTP_URL must start with smtp/],
  [
    { SLIPWAY_SMTP_URL: "http://a-secret@mail", SLIPWAY_MAIL_FROM: "a@b.test" },
    /^SLIPWAY_SMTP_URL must start with smtp/,
  ],
  [
    { SLIPWAY_SMTP_URL: "smtp://mail", SLIPWAY_MAIL_FROM: "nobody" },
    /^SLIPWAY_MAIL_FROM is "nobody"/,
  ],
  [{ ...oidc, SLIPWAY_OIDC_CLIENT_SECRET: "" }, /^SLIPWAY_OIDC_ISSUER, .* belong together/],
  [
    { ...oidc, SLIPWAY_OIDC_ISSUER: "id.example.test" },
    /^SLIPWAY_OIDC_ISSUER is "id\.example\.test"/,
  ],
  [{ SLIPWAY_GITHUB_CLIENT_SECRET: "a-secret" }, /^SLIPWAY_GITHUB_CLIENT_ID, .* belong together/],
  [
    { SLIPWAY_SIGN_UP: "everybody" },
    /^SLIPWAY_SIGN_UP is "everybody", but must be one of invited, open\.$/,
  ],
  [{ SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/8,proxy" }, /^SLIPWAY_TRUSTED_PROXIES has "proxy"/],
  [{ SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/33" }, /^SLIPWAY_TRUSTED_PROXIES has "10\.0\.0\.0\/33"/],
  [{ SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/8/8" }, /^SLIPWAY_TRUSTED_PROXIES has/],
] as const;

for (const [environment, message] of refused) {
  test(`${Object.keys(environment).join(", ")}: what is wrong is named, and no secret shown`, () => {
    assert.throws(
      () => readConfig(environment),
      (error) => {
        assert.ok(error instanceof ConfigRefused);
        assert.match(error.message, message);
        assert.equal(/a-secret|an oidc secret/.test(error.message), false);
        return true;
      },
    );
  });
}

test("without settings, people sign in with passwords, by invitation, and no mail is sent", () => {
  assert.deepEqual(readConfig({}).people, {
    signUp: "invited",
    mail: null,
    oidc: null,
    github: null,
  });
});

test("providers and mail are read, and their secrets are not seen when settings are printed", () => {
  const { people, trustedProxies } = readConfig({
    ...oidc,
    SLIPWAY_GITHUB_CLIENT_ID: "id",
    SLIPWAY_GITHUB_CLIENT_SECRET: "a github secret",
    SLIPWAY_SMTP_URL: "smtps://u:a-secret@mail.example.test",
    SLIPWAY_MAIL_FROM: "Slipway <slipway@example.test>",
    SLIPWAY_TRUSTED_PROXIES: "10.0.0.0/8, ::1, fd00::/8",
  });
  assert.equal(people.oidc?.url, "https://id.example.test");
  assert.equal(people.oidc?.clientSecret.reveal(), "an oidc secret");
  assert.deepEqual([people.github?.url, people.github?.name], ["https://github.com", "GitHub"]);
  assert.equal(people.mail?.from, "Slipway <slipway@example.test>");
  for (const remoteAddress of ["10.255.0.1", "::1", "fdff::1"]) {
    assert.equal(
      trustedProxies.peerOf({ remoteAddress }).originOf("192.0.2.1").address,
      "192.0.2.1",
    );
  }
  assert.equal(
    /a-secret|an oidc secret|a github secret/.test(inspect(people, { depth: 9 })),
    false,
  );
});
