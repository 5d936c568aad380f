// Tokens end to end on a real database: form, forgeries, expiry, revocation, rotation of keys,
// bounds of memory.
import assert from "node:assert/strict";
import { createHmac, createPublicKey, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { test } from "node:test";
import { sql } from "kysely";
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import { systemClock } from "#lib/clock.ts";
import { Secret } from "#lib/secret.ts";
import { newProjectId } from "#lib/ids.ts";
import { Sealer } from "#lib/seal.ts";
import { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import { SigningKeys } from "#accounts/keys.ts";
import { hashPassword, isPassword, nobodysHash } from "#accounts/passwords.ts";
import { createProject } from "#accounts/projects.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { issueToken } from "#accounts/tokens.ts";
import { sealedColumns } from "#platform-sealed.ts";
import { toJson } from "#store/json.ts";
import { resealOld, sealingKeyIds } from "#store/sealed-store.ts";
import type { NotificationListener } from "#store/notify.ts";
import { personLookup } from "#people/person-lookup.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { byPlatform, testAccounts, type Accounts } from "#test/support/accounts.ts";
import { openDatabaseGate } from "#test/support/database-gate.ts";
import "#test/support/leftovers.ts";
import { revokeToken } from "#test/support/revoke-token.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";
import { connect } from "./support/connect.ts";

const neverExpires = { expiresAt: null };

async function serviceToken(accounts: Accounts): Promise<string> {
  const { projectId } = accounts;
  const issued = await accounts.issue({
    kind: "service_account",
    projectId,
    role: "member",
    ...neverExpires,
  });
  return issued.token.reveal();
}

/** The token with another header or payload; signed by `sign`, or with the old signature. */
function forge(
  token: string,
  change: { header?: object; payload?: object; signature?: (input: string) => string },
): string {
  const [header, payload, signature] = token.split(".");
  const encode = (value: object): string =>
    Buffer.from(JSON.stringify(value)).toString("base64url");
  const input = [
    change.header === undefined
      ? header
      : encode({ ...decodeProtectedHeader(token), ...change.header }),
    change.payload === undefined ? payload : encode({ ...decodeJwt(token), ...change.payload }),
  ].join(".");
  return `${input}.${change.signature?.(input) ?? signature}`;
}

test("tokens have the form that clients expect, and their bearer is known", async (t) => {
  const accounts = await testAccounts(t);
  const { projectId, check } = accounts;
  const service = await serviceToken(accounts);
  assert.deepEqual(
    { ...decodeProtectedHeader(service), kid: "" },
    { alg: "RS256", typ: "JWT", kid: "" },
  );
  const claims = decodeJwt(service);
  assert.match(String(claims["principal"]), /^serviceaccount\/sa-[0-9a-f-]{36}$/);
  assert.deepEqual([claims["projectId"], claims.exp], [projectId, undefined]);
  const caller = await check.check(service);
  assert.deepEqual(caller, {
    kind: "service_account",
    tokenId: claims.jti,
    accountId: claims.jti,
    projectId,
    role: "member",
    permissions: null,
    name: "test",
  });
  assert.equal(check.cached(service), caller, "from memory the second time");

  const inference = (
    await accounts.issue({ kind: "inference", projectId }, "callers")
  ).token.reveal();
  const { iat = 0, exp = 0, ...rest } = decodeJwt(inference);
  assert.deepEqual(Object.keys(rest).toSorted(), ["jti", "projectId"]);
  assert.ok(Math.abs((exp - iat) / 31_557_600 - 10) < 0.01, "ten years");
  assert.equal((await check.check(inference))?.kind, "inference");

  const operator = await accounts.issue({ kind: "operator", ...neverExpires });
  assert.deepEqual((await check.check(operator.token.reveal()))?.projectId, null);
  assert.equal(String(operator.token), "[secret]");
});

test("the published keys verify the tokens, without the platform's help", async (t) => {
  const accounts = await testAccounts(t);
  const jwks = accounts.keys.jwks();
  assert.ok(
    jwks.keys.every((key) => key.d === undefined && key.kid !== undefined),
    "no private part",
  );
  const { payload } = await jwtVerify(await serviceToken(accounts), createLocalJWKSet(jwks));
  assert.equal(payload["projectId"], accounts.projectId);
});

test("forged tokens are refused, first and second time", async (t) => {
  const accounts = await testAccounts(t);
  const { check, keys } = accounts;
  const token = await serviceToken(accounts);
  const kid = keys.current().id;
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const rsa = (key: typeof other.privateKey) => (input: string) =>
    sign("RSA-SHA256", Buffer.from(input), key).toString("base64url");
  const publicPem = createPublicKey(keys.current().privateKey).export({
    type: "spki",
    format: "pem",
  });
  const forgeries: Record<string, string> = {
    "alg none, no signature": forge(token, { header: { alg: "none" }, signature: () => "" }),
    "alg none, old signature": forge(token, { header: { alg: "none" } }),
    "alg HS256 with the public key as the secret": forge(token, {
      header: { alg: "HS256" },
      signature: (input) => createHmac("sha256", publicPem).update(input).digest("base64url"),
    }),
    "alg RS512": forge(token, { header: { alg: "RS512" } }),
    "signed by another key under our key id": forge(token, { signature: rsa(other.privateKey) }),
    "unknown key id": forge(token, {
      header: { kid: "0123456789abcdef" },
      signature: rsa(other.privateKey),
    }),
    "key given in the header": forge(token, {
      header: { kid, jwk: other.publicKey.export({ format: "jwk" }) },
      signature: rsa(other.privateKey),
    }),
    "no key id": forge(token, { header: { kid: undefined } }),
    "another project in the payload": forge(token, { payload: { projectId: newProjectId() } }),
    "another token's id": forge(token, { payload: { jti: randomUUID() } }),
    "longer life": forge(token, { payload: { exp: 99_999_999_999 } }),
    "unknown critical header": forge(token, { header: { crit: ["b64"], b64: false } }),
    "two parts": token.split(".").slice(0, 2).join("."),
    "no token": "",
    "not a token": "Bearer x.y.z",
    "far too long": `${token}${"A".repeat(10_000)}`,
  };
  for (const [name, forged] of Object.entries(forgeries)) {
    assert.equal(await check.check(forged), null, name);
    assert.equal(await check.check(forged), null, `${name}, again`);
  }
  assert.ok(await check.check(token), "the real one still works");
});

test("a well signed token is refused when its row is missing, of another project or says nothing of the kind", async (t) => {
  const accounts = await testAccounts(t);
  const { check, keys, db } = accounts;
  const token = await serviceToken(accounts);
  const resign = (payload: object): string =>
    forge(token, {
      payload,
      signature: (input) =>
        sign("RSA-SHA256", Buffer.from(input), keys.current().privateKey).toString("base64url"),
    });
  const elsewhere = await db
    .transaction()
    .execute((tx) =>
      createProject(tx, { name: "other", ownerId: accounts.ownerId, by: byPlatform }),
    );
  assert.ok(await check.check(resign({ note: "signed by us" })), "the way of signing is right");
  assert.equal(await check.check(resign({ jti: randomUUID() })), null);
  assert.equal(await check.check(resign({ jti: "' or true --" })), null);
  assert.equal(await check.check(resign({ projectId: elsewhere })), null);
  assert.equal(await check.check(resign({ projectId: undefined })), null);
  assert.equal(await check.check(resign({ exp: 1_000 })), null);
  assert.equal(await check.check(resign({ exp: "never" })), null);
});

test("a token ends at its date, in memory too", async (t) => {
  const clock = new VirtualClock();
  const accounts = await testAccounts(t, { clock });
  const { check, projectId } = accounts;
  const wish = { kind: "service_account", projectId, role: "owner" } as const;
  const issued = await accounts.issue({ ...wish, expiresAt: new Date(clock.now() + 60_000) });
  const token = issued.token.reveal();
  assert.ok(await check.check(token));
  await clock.advance(59_999);
  assert.ok(check.cached(token));
  await clock.advance(1);
  assert.equal(check.cached(token), null);
  assert.equal(await check.check(token), null);
  const past = accounts.issue({ ...wish, expiresAt: new Date(clock.now() - 1) });
  await assert.rejects(past, {
    name: "Fault",
    code: "invalid",
    message: /^expires_at is .* must be in the future/,
  });
});

test("a revoked token is refused by every platform on the database", async (t) => {
  const accounts = await testAccounts(t);
  const { db, keys, notifications, check } = accounts;
  const second = new TokenCheck({
    db,
    keys,
    notifications,
    people: personLookup(db),
    clock: systemClock,
  });
  const token = await serviceToken(accounts);
  const other = await serviceToken(accounts);
  for (const one of [check, second])
    assert.ok((await one.check(token)) && (await one.check(other)));
  const atMs = systemClock.monotonicMs();
  await revokeToken(accounts, token);
  await until(
    "both refuse it",
    async () => !(await check.check(token)) && !(await second.check(token)),
  );
  t.diagnostic(`refused after ${Math.round(systemClock.monotonicMs() - atMs)} ms`);
  assert.ok(check.cached(other), "others are still known");
  await assert.rejects(revokeToken(accounts, token), { name: "Fault", code: "not_found" });
});

test("a revocation that happens while a token is being checked is not overlooked", async (t) => {
  const accounts = await testAccounts(t);
  for (let round = 0; round < 20; round++) {
    const token = await serviceToken(accounts);
    await Promise.all([accounts.check.check(token), revokeToken(accounts, token)]);
    await until("it is refused", async () => (await accounts.check.check(token)) === null);
  }
});

test("revocations that were missed while the connection was broken hold after it", async (t) => {
  const accounts = await testAccounts(t);
  const token = await serviceToken(accounts);
  assert.ok(await accounts.check.check(token));
  // Nobody is told: as if the notification fell into the time without a connection.
  await accounts.db
    .updateTable("tokens")
    .set({ revoked_at: sql<Date>`now()` })
    .execute();
  assert.ok(accounts.check.cached(token));
  // Not as the platform's own role, which cannot see other roles' connections.
  await asOwner(accounts.db, (tx) =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and query ~ '^(select 1$|listen )'`.execute(
      tx,
    ),
  );
  await until("it is refused", async () => (await accounts.check.check(token)) === null);
});

test("while the database does not answer a token that was valid goes on, unless word came that it has changed", async (t) => {
  const accounts = await testAccounts(t);
  const gate = await openDatabaseGate(t, accounts.url);
  const db = await connect(new Secret(gate.url), 2);
  t.after(() => db.destroy());
  let tell: NotificationListener = () => undefined;
  const notifications = {
    listen: (channel: string, run: NotificationListener) => {
      if (channel === "tokens") tell = run;
      return () => undefined;
    },
  };
  const check = new TokenCheck({
    db,
    keys: accounts.keys,
    notifications,
    people: personLookup(db),
    clock: systemClock,
  });
  const token = await serviceToken(accounts);
  const other = await serviceToken(accounts);
  const caller = await check.check(token);
  assert.ok(caller !== null && caller.kind !== "person");
  gate.shut();
  await assert.rejects(check.check(other), "it was never looked at");
  tell(null);
  assert.equal(check.cached(token), undefined, "it may have changed, and is looked at");
  assert.deepEqual(await check.check(token), caller);
  assert.deepEqual(check.cached(token), caller, "it is not looked at each time");
  tell(caller.tokenId);
  await assert.rejects(check.check(token), "it has changed, nobody knows to what");
  gate.open();
  assert.deepEqual(await check.check(token), caller);
  gate.shut();
  await revokeToken(accounts, token);
  tell(null);
  assert.deepEqual(await check.check(token), caller);
  gate.open();
  tell(null);
  assert.equal(await check.check(token), null);
});

test("a token can be revoked in its own project only", async (t) => {
  const accounts = await testAccounts(t);
  const token = await serviceToken(accounts);
  await assert.rejects(revokeToken({ ...accounts, projectId: newProjectId() }, token), {
    code: "not_found",
  });
  assert.ok(await accounts.check.check(token));
});

test("memory for tokens is bounded, good and bad ones", async (t) => {
  const accounts = await testAccounts(t, { knownMax: 2 });
  const { check } = accounts;
  const tokens = [
    await serviceToken(accounts),
    await serviceToken(accounts),
    await serviceToken(accounts),
  ];
  for (const token of tokens) assert.ok(await check.check(token));
  assert.deepEqual(
    tokens.map((token) => check.cached(token) !== undefined),
    [false, true, true],
  );
  for (let index = 0; index < 1_500; index++) assert.equal(await check.check(`bad-${index}`), null);
  assert.equal(check.cached("bad-1499"), null, "a bad one is refused from memory");
  assert.equal(check.cached("bad-0"), undefined, "but few of them are kept");
});

test("after a rotation old tokens stay valid and new ones are signed by the new key, here and elsewhere", async (t) => {
  const accounts = await testAccounts(t);
  const { db, keys, sealer, check } = accounts;
  const before = await serviceToken(accounts);
  const elsewhere = new SigningKeys({ sealer, clock: systemClock });
  await elsewhere.load(db);
  const oldId = keys.current().id;
  await db.transaction().execute((tx) => elsewhere.rotate(tx, byPlatform));
  await elsewhere.load(db);
  const issued = await db.transaction().execute((tx) => {
    const wish = { kind: "inference", projectId: accounts.projectId } as const;
    return issueToken(tx, {
      wish,
      name: "new",
      key: elsewhere.current(),
      nowMs: systemClock.now(),
      by: byPlatform,
    });
  });
  const after = issued.token.reveal();
  assert.notEqual(decodeProtectedHeader(after).kid, oldId);
  assert.ok(await check.check(after), "a key that another platform made is found");
  assert.ok(await check.check(before));
  assert.equal(keys.jwks().keys.length, 2);
  assert.notEqual(keys.current().id, oldId);
});

test("keys are sealed anew with a new secret key; with another one alone the start is refused", async (t) => {
  const accounts = await testAccounts(t);
  const { db } = accounts;
  const token = await serviceToken(accounts);
  const oldKey = "11".repeat(32);
  const newKey = "22".repeat(32);
  const wrong = new SigningKeys({ sealer: new Sealer([newKey]), clock: systemClock });
  await assert.rejects(wrong.load(db), { name: "CannotStart", message: /SLIPWAY_SECRET_KEY/ });
  await resealOld(db, new Sealer([newKey, oldKey]), sealedColumns);
  const rotated = new SigningKeys({ sealer: new Sealer([newKey]), clock: systemClock });
  await rotated.load(db);
  const check = new TokenCheck({
    ...accounts,
    keys: rotated,
    people: personLookup(db),
    clock: systemClock,
  });
  assert.ok(await check.check(token));
});

test("passwords are kept as hashes that only they match", async () => {
  const hash = await hashPassword("correct horse");
  assert.match(hash, /^scrypt\$N=32768,r=8,p=3\$/);
  assert.equal(await isPassword("correct horse", hash), true);
  assert.equal(await isPassword("correct horsf", hash), false);
  assert.equal(await isPassword("correct horse", "plain"), false);
  assert.notEqual(await hashPassword("correct horse"), hash, "salted");
  const form = (text: string): string =>
    text.replaceAll(/\$[\w-]+(?=\$|$)/g, (part) => `$${part.length}`);
  assert.equal(form(nobodysHash()), form(hash), "to compare with nobody's costs the same");
  assert.equal(await isPassword("", nobodysHash()), false);
});

test("public keys are the halves of what is sealed, whatever else the database says", async (t) => {
  const oldKey = "11".repeat(32);
  const newKey = "22".repeat(32);
  const { db } = await testAccounts(t);
  const keys = new SigningKeys({ sealer: new Sealer([oldKey]), clock: systemClock });
  await keys.load(db);
  const published = keys.jwks();
  const first = keys.current();
  const stranger = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({
    format: "jwk",
  });
  await db
    .updateTable("signing_keys")
    .set({ public_jwk: toJson(stranger) })
    .execute();
  await keys.load(db);
  assert.deepEqual(keys.jwks(), published);

  await db.transaction().execute((tx) => keys.rotate(tx, byPlatform));
  await keys.load(db);
  await new SigningKeyUseCases({ db, keys, clock: systemClock }).withdraw(
    first.id,
    true,
    byPlatform,
  );
  const later = new SigningKeys({ sealer: new Sealer([newKey, oldKey]), clock: systemClock });
  await later.load(db);
  await resealOld(db, new Sealer([newKey, oldKey]), sealedColumns);
  assert.equal(
    (await sealingKeyIds(db, sealedColumns)).includes(""),
    false,
    "an erased half needs no key",
  );
  await new SigningKeys({ sealer: new Sealer([newKey]), clock: systemClock }).load(db);
  for (const one of [keys, later]) {
    assert.equal(one.verifier(first.id), undefined);
    assert.equal(one.jwks().keys.length, 1);
    assert.ok(
      one.withdrawn(first.id)?.equals(createPublicKey(first.privateKey)),
      "what it signed can still be told",
    );
  }
});
