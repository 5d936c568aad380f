// What a platform of before has stored of people goes on to be good: the values here were written
// by the version that had better-auth keep sessions, second factors and links.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test, type TestContext } from "node:test";
import { SigningKeys } from "#accounts/keys.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import { appUri } from "#people/app-codes.ts";
import { People } from "#people/people.ts";
import { loadAuthSecret } from "#people/auth-secret.ts";
import { byPlatform } from "#test/support/accounts.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import { appCode } from "./people-stage.ts";

const secretOfBefore = "an old secret of forty-three letters, or so.";
const personId = "6d1c1d0e-8f0a-4a53-9d0c-0d4f5a1b2c3d";
const email = "ada@example.test";
const password = "correct horse battery";
const passwordHash =
  "scrypt$N=32768,r=8,p=3$wHTeIwqVsNjArDzHxaw3ng$UBBn1WMqvovDH70S4ACPB3Tsd1B0FjCfxLwY_WIXWH0";
/** The secret of the authenticator app. */
const appSecret = "Zq3_tB-9xKfLm2Wd7RyVhN5cPg8sJ0aE";
const sealedSecret =
  "$ba$1$28db2561fedd76a760515280c5fc4a7bba2efff8122ac053d017a79a93d7faf38a5bb2dbd4692f9dda11b5c59e881490da888fbc194e6354bae6a12c7965307eaa9a033c79f6ffec";
/** `aB3dE-fG5hJ` and another one. */
const sealedCodes =
  "$ba$1$e868cee57d3b48685d82350a248426b419f5be80776144dd3d200d73cc8b09800a205c0da9c94e922fcc987319bdeb286ae7a21d48045d4887aaf42bd6b24c63243d550152";
const sessionToken = "Xk2_old-session-token-of-32-letr";
const refreshToken = `${sessionToken}.OeTFYR33HYyOuQ53G71yCYKC7tmtJg4DG6SVGLRfAk4`;
const challenges = [
  {
    challenge: "2fa-aaaaaaaaaabbbbbbbbbbcccccccccc-1",
    identifier: "qBtFmNK7geNXOaMeeXcpbBTfXrXpU3q7yxKSOAt5BdM",
    triesIdentifier: "JJkhitlkiZ8RvVli7vnIyNzCXP7ErnIebr4YLT6ulKo",
  },
  {
    challenge: "2fa-aaaaaaaaaabbbbbbbbbbcccccccccc-2",
    identifier: "b6aT3FdCifuzfmHXmFG7y1BW_Pws5-tveRi1FhPjnvI",
    triesIdentifier: "5l8u3Rd8lrS83Guzx3IpbTJ4fAGXqUbA8d8pDN7VtdY",
  },
] as const;
const link = {
  secret: "mold-link-old-link-old-link-old-link-old-lin",
  identifier: "reKitVeP79LqUKMobbcRJ3FMTBP4QUNfQVDkkFG_Aro",
};
const trier = { device: null, by: byPlatform };

/** A platform of now on the database. */
async function upgraded(t: TestContext): Promise<People> {
  const { db } = await testDatabase(t);
  const sealer = new Sealer([randomBytes(32).toString("hex")]);
  await db
    .insertInto("person_secret")
    .values({ secret_sealed: sealer.seal(secretOfBefore, "person_secret") })
    .execute();
  await db
    .insertInto("people")
    .values({ id: personId, email, name: "Ada", two_factor_enabled: true })
    .execute();
  await db
    .insertInto("person_accounts")
    .values({
      id: personId,
      person_id: personId,
      provider_id: "credential",
      account_id: personId,
      password_hash: passwordHash,
    })
    .execute();
  const expires_at = new Date(systemClock.now() + 600_000);
  await db
    .insertInto("person_sessions")
    .values({ id: personId, person_id: personId, token: sessionToken, expires_at })
    .execute();
  await db
    .insertInto("person_two_factors")
    .values({
      id: personId,
      person_id: personId,
      verified: true,
      secret: sealedSecret,
      backup_codes: sealedCodes,
    })
    .execute();
  const verifications = [
    ...challenges.flatMap(({ identifier, triesIdentifier }) => [
      { identifier, value: personId },
      { identifier: triesIdentifier, value: "0" },
    ]),
    { identifier: link.identifier, value: personId },
  ];
  await db
    .insertInto("person_verifications")
    .values(verifications.map((row) => ({ ...row, id: `of ${row.identifier}`, expires_at })))
    .execute();
  const keys = new SigningKeys({ sealer, clock: systemClock });
  await keys.rotate(db, byPlatform);
  await keys.load(db);
  const secret = await loadAuthSecret(db, sealer);
  return new People({
    db,
    secret,
    keys,
    clock: systemClock,
    log: silentLog,
    mailer: null,
    baseUrl: () => "http://127.0.0.1",
    settings: { signUp: "invited", oidc: null, github: null },
  });
}

test("sessions, passwords, second factors and backup codes of before are good after an upgrade", async (t) => {
  const people = await upgraded(t);
  assert.equal((await people.sessions.of(refreshToken))?.person.id, personId);
  const code = appCode(appUri(appSecret, email));
  const codes = [code, "aB3dE-fG5hJ"];
  for (const [index, { challenge }] of challenges.entries()) {
    const done = await people.twoFactor.signIn({ ...trier, challenge, code: codes[index] ?? "" });
    assert.equal(done.person.id, personId);
  }
  const next = await people.signIn.withPassword({
    ...trier,
    email,
    password: new Secret(password),
  });
  assert.ok(next.kind === "two_factor");
  const again = { ...trier, challenge: next.challenge.reveal() };
  for (const used of codes) {
    await assert.rejects(
      people.twoFactor.signIn({ ...again, code: used }),
      { code: "unauthorized" },
      used,
    );
  }
  assert.equal(
    (await people.twoFactor.signIn({ ...again, code: "Kl7mN-pQ9rS" })).person.id,
    personId,
  );
});

test("a link of before sets a password once, and ends sessions and second steps of before", async (t) => {
  const people = await upgraded(t);
  const wish = { ...trier, secret: link.secret, next: new Secret("my own new password") };
  await people.passwords.reset(wish);
  await assert.rejects(people.passwords.reset(wish), { code: "not_usable" });
  assert.equal(await people.sessions.of(refreshToken), null);
  const [{ challenge }] = challenges;
  await assert.rejects(people.twoFactor.signIn({ ...trier, challenge, code: "aB3dE-fG5hJ" }), {
    code: "unauthorized",
  });
  assert.equal(
    (await people.signIn.withPassword({ ...trier, email, password: wish.next })).kind,
    "two_factor",
  );
});
