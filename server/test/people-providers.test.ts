// Signing in with an OpenID Connect provider, a real one: who is let in, who is not, and what a
// visit that was tampered with comes to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Secret } from "#lib/secret.ts";
import "#test/support/leftovers.ts";
import { makePerson } from "#test/support/person.ts";
import { SmallBrowser } from "#test/support/oidc-server.ts";
import {
  ada,
  begin,
  invite,
  meOf,
  startFixture,
  tokenOf,
  visit,
  type Fixture,
} from "./people-provider-stage.ts";
import { adasEmail, adasPassword, appCode, startPeopleStage } from "./people-stage.ts";

async function proven({ api, adaId }: Fixture): Promise<void> {
  await api.db
    .updateTable("people")
    .set({ email_verified: true })
    .where("id", "=", adaId)
    .execute();
}

async function emails({ api }: Fixture): Promise<string[]> {
  const rows = await api.db
    .selectFrom("people")
    .select("email")
    .where("name", "<>", "Owner")
    .execute();
  return rows.map(({ email }) => email).toSorted();
}

test("a person who is known here signs in with the provider, and comes back to where they wanted to go", async (t) => {
  const fixture = await startFixture(t);
  await proven(fixture);
  const { body: offers } = await fixture.api.call("GET", "/v2/auth/providers", { token: null });
  assert.deepEqual(offers, [{ id: "oidc", name: "SSO" }]);
  const begun = await fixture.post("/v2/auth/sign-in/provider", { provider: "oidc" });
  assert.match(
    begun.headers.get("set-cookie") ?? "",
    /^slipway\.state=[^;]+; Max-Age=300; Path=\/v2\/auth; HttpOnly; SameSite=Lax$/,
  );
  const browser = new SmallBrowser();
  assert.equal(await visit(fixture, ada, browser), "/dashboard/device?code=A");
  const me = await meOf(fixture, browser);
  assert.deepEqual(
    [me.person.id, me.person.email, me.person.name],
    [fixture.adaId, adasEmail, "Ada"],
  );
  await fixture.signIn();
  assert.deepEqual(await fixture.entries(), [
    "person.sign_in success person",
    "person.sign_in success person",
  ]);
  const accounts = await fixture.api.db
    .selectFrom("person_accounts")
    .selectAll()
    .where("provider_id", "=", "oidc")
    .execute();
  const [account] = accounts;
  assert.deepEqual(
    [account?.account_id, account?.access_token],
    [`${fixture.oidc.issuer} ada-there`, null],
  );
  assert.equal(
    browser.cookiesOf(fixture.api.baseUrl).has("slipway.state"),
    false,
    "the visit's cookie is gone",
  );
});

test("an address that only looks like somebody's, or becomes theirs in small letters, lets nobody into their account", async (t) => {
  const fixture = await startFixture(t);
  const password = "correct horse battery";
  const id = await makePerson(fixture.api.db, { email: "kim@example.test", name: "Kim", password });
  await fixture.api.db
    .updateTable("people")
    .set({ email_verified: true })
    .where("id", "=", id)
    .execute();
  await invite(fixture, "ek@example.test");
  // The Kelvin sign, which becomes a k; a Cyrillic letter that looks like an i; letters of full
  // width.
  for (const email of [
    "\u212Aim@example.test",
    "e\u212A@example.test",
    "k\u0456m@example.test",
    "\uFF4Bim@example.test",
  ]) {
    const browser = new SmallBrowser();
    const location = await visit(
      fixture,
      { sub: `evil ${email}`, email, emailVerified: true },
      browser,
    );
    assert.equal(location, "/dashboard#sign-in-problem=address_not_proven");
    assert.equal(await tokenOf(fixture, browser), null);
  }
  await fixture.signIn({ email: "KIM@example.test", password });
});

test("an address that the provider has not proven lets nobody in: not into an account, not by an invitation", async (t) => {
  const fixture = await startFixture(t);
  await invite(fixture, "grace@example.test");
  const before = await emails(fixture);
  for (const email of [adasEmail, "grace@example.test"]) {
    const browser = new SmallBrowser();
    const account = { sub: `evil ${email}`, email, emailVerified: false };
    assert.equal(
      await visit(fixture, account, browser),
      "/dashboard#sign-in-problem=address_not_proven",
    );
    assert.equal(await tokenOf(fixture, browser), null);
  }
  assert.deepEqual(await emails(fixture), before);
  await fixture.signIn();
});

test("only the invited become people, and anybody where sign-up is open", async (t) => {
  const fixture = await startFixture(t);
  const grace = { sub: "grace", email: "grace@example.test", emailVerified: true, name: "Grace" };
  assert.equal(await visit(fixture, grace), "/dashboard#sign-in-problem=not_invited");
  assert.deepEqual(await emails(fixture), [adasEmail]);
  await invite(fixture, grace.email);
  const browser = new SmallBrowser();
  assert.equal(await visit(fixture, grace, browser), "/dashboard/device?code=A");
  const token = await tokenOf(fixture, browser);
  const { body: me } = await fixture.api.call("GET", "/v2/auth/session", { token });
  assert.deepEqual(
    [me.person.name, me.projects],
    ["Grace", []],
    "the invitation is still to be accepted",
  );
  const call = (path: string, body: object): ReturnType<typeof fixture.api.call> =>
    fixture.api.call("POST", path, { token, body });
  const change = { currentPassword: "none of hers", newPassword: "a password of hers" };
  assert.equal(
    (await call("/v2/auth/password", change)).status,
    409,
    "she has no password to change",
  );
  const guess = await fixture.post("/v2/auth/sign-in", {
    email: grace.email,
    password: "none of hers",
  });
  assert.equal(guess.status, 401);
  const { uri } = (await call("/v2/auth/two-factor", {})).body;
  assert.equal((await call("/v2/auth/two-factor/confirm", { code: appCode(uri) })).status, 200);

  const open = await startFixture(t, { signUp: "open" });
  assert.equal(await visit(open, { ...grace, sub: "any" }), "/dashboard/device?code=A");
});

test("whoever shows the address takes the account over from whoever never did", async (t) => {
  const fixture = await startFixture(t);
  const waiting = await fixture.signIn();
  await fixture.post("/v2/auth/password/forgot", { email: adasEmail });
  const { text } = await fixture.mail.next(adasEmail);
  const secret = /reset-password\/([\w-]+)/.exec(text)?.[1] ?? "";
  assert.equal(await visit(fixture, ada), "/dashboard/device?code=A");
  const body = { email: adasEmail, password: adasPassword };
  assert.equal(
    (await fixture.post("/v2/auth/sign-in", body)).status,
    401,
    "the unproven password is good no more",
  );
  assert.equal(
    (await fixture.post("/v2/auth/token", { refresh_token: waiting.refreshToken })).status,
    401,
  );
  const reset = { token: secret, password: "a password of somebody" };
  assert.equal((await fixture.post("/v2/auth/password/reset", reset)).status, 422);
  assert.ok((await fixture.entries()).includes("person.password_reset success platform"));
  assert.match((await fixture.mail.next(adasEmail, 1)).text, /no longer valid/);
  assert.equal(await visit(fixture, ada), "/dashboard/device?code=A", "and again");
});

test("the provider is no way around a second factor", async (t) => {
  const fixture = await startFixture(t);
  const { accessToken } = await fixture.signIn();
  const call = (path: string, body: object): ReturnType<typeof fixture.api.call> =>
    fixture.api.call("POST", path, { token: accessToken, body });
  const { uri } = (await call("/v2/auth/two-factor", { password: adasPassword })).body;
  assert.equal((await call("/v2/auth/two-factor/confirm", { code: appCode(uri) })).status, 200);
  const early = new SmallBrowser();
  assert.equal(await visit(fixture, ada, early), "/dashboard#sign-in-problem=two_factor_first");
  assert.equal(await tokenOf(fixture, early), null);
  await proven(fixture);
  const browser = new SmallBrowser();
  const place = await visit(fixture, ada, browser);
  const [, challenge = ""] =
    /^\/dashboard\/device\?code=A#challenge=(2fa-[\w-]+)$/.exec(place) ?? [];
  assert.notEqual(challenge, "", place);
  assert.equal(await tokenOf(fixture, browser), null, "there is no session before the code");
  const { status } = await fixture.post("/v2/auth/sign-in/two-factor", {
    challenge,
    code: appCode(uri, 1),
  });
  assert.equal(status, 200);
});

test("an account there stays that person's here, whatever address it has later", async (t) => {
  const fixture = await startFixture(t);
  await proven(fixture);
  await visit(fixture, ada);
  const browser = new SmallBrowser();
  await visit(fixture, { ...ada, email: "other@example.test", emailVerified: false }, browser);
  const me = await meOf(fixture, browser);
  assert.deepEqual([me.person.id, me.person.email], [fixture.adaId, adasEmail]);
  assert.deepEqual(await emails(fixture), [adasEmail]);
});

test("what comes back counts once, and only in the browser that began the visit", async (t) => {
  const fixture = await startFixture(t);
  await proven(fixture);
  const expired = "/dashboard#sign-in-problem=expired";
  const mine = new SmallBrowser();
  const callback = `${fixture.api.baseUrl}/v2/auth/callback/oidc`;
  const { location } = await mine.follow(await begin(fixture, mine), callback);
  const elsewhere = await new SmallBrowser().send(location);
  assert.equal(
    elsewhere.headers.get("location"),
    expired,
    "an attacker's code does not sign the victim in",
  );
  const first = await mine.send(location);
  assert.equal(first.headers.get("location"), "/dashboard/device?code=A");
  const second = await mine.send(location);
  assert.equal(second.headers.get("location"), expired);
  for (const query of [
    "",
    "?code=x",
    "?code=x&state=y",
    "?error=access_denied",
    "?state[]=a&code=b",
  ]) {
    const { status, headers } = await new SmallBrowser().send(callback + query);
    assert.equal(status, 302, query);
    assert.match(headers.get("location") ?? "", /^\/dashboard#sign-in-problem=\w+$/, query);
  }
});

test("nobody is sent to another site at the end of a visit", async (t) => {
  const fixture = await startFixture(t);
  const places = [
    "https://evil.example/",
    "//evil.example",
    "/dashboard//evil.example",
    "/dashboard/../v2/auth/token",
    "/dashboard\\evil.example",
    "/dashboard@evil.example",
    "/dashboard/%2e%2e/x",
    "/dashboardevil",
    "/dashboard#x",
    "/",
  ];
  for (const returnTo of places) {
    const { status } = await fixture.post("/v2/auth/sign-in/provider", {
      provider: "oidc",
      returnTo,
    });
    assert.equal(status, 400, returnTo);
  }
});

test("a provider that is away is said to be so, and passwords go on", async (t) => {
  const client = { clientId: "slipway", clientSecret: new Secret("secret"), name: "SSO" };
  const stage = await startPeopleStage(t, { oidc: { ...client, url: "http://127.0.0.1:9" } });
  const { status, body } = await stage.post("/v2/auth/sign-in/provider", { provider: "oidc" });
  assert.deepEqual(
    [status, body.message],
    [503, "SSO is not responding correctly at the moment; try again."],
  );
  await stage.signIn();
  const other = await stage.post("/v2/auth/sign-in/provider", { provider: "github" });
  assert.equal(other.status, 404);
});
