// Accounts with a provider that somebody connects and disconnects while they are signed in: whose
// they may be, and what keeps others from doing it in their name.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import "#test/support/leftovers.ts";
import { SmallBrowser, type OidcAccount } from "#test/support/oidc-server.ts";
import { until } from "#test/support/until.ts";
import { invite, meOf, startFixture, visit, type Fixture } from "./people-provider-stage.ts";
import { adasEmail, adasPassword } from "./people-stage.ts";

/** A browser in which Ada has signed in with her password, and what she does there. */
async function adasBrowser(fixture: Fixture) {
  const { api } = fixture;
  const { accessToken } = await fixture.signIn();
  const browser = new SmallBrowser();
  const change = async (what: "connect" | "disconnect", password: string | null = adasPassword) => {
    const response = await browser.send(`${api.baseUrl}/v2/auth/sign-in-methods/${what}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "sec-fetch-site": "same-origin",
        authorization: `Bearer ${accessToken}`,
      },
      body: JSON.stringify({ provider: "oidc", ...(password === null ? {} : { password }) }),
    });
    return {
      status: response.status,
      body: (await response.json()) as { url: string; message: string },
    };
  };
  return {
    browser,
    change,
    /** Where the browser ends up once the provider has sent it back. */
    async connect(account: OidcAccount): Promise<string> {
      fixture.oidc.account = account;
      const { status, body } = await change("connect");
      assert.equal(status, 200, body.message);
      return (await browser.follow(body.url, "/dashboard")).location;
    },
    async methods() {
      return (await api.call("GET", "/v2/auth/sign-in-methods", { token: accessToken })).body;
    },
  };
}

const adaElsewhere: OidcAccount = {
  sub: "ada-at-home",
  email: "ada@home.test",
  emailVerified: true,
};

/** Waits for a mail to Ada that has the text. */
function mailed({ mail }: Fixture, text: RegExp): Promise<RegExpExecArray> {
  return until(`a mail with ${text.source}`, () =>
    mail.mails.map((one) => text.exec(one.text)).find((found) => found),
  );
}

/** Entries of the audit log about connected accounts, oldest first. */
function connections({ api }: Fixture) {
  return (
    api.db
      .selectFrom("audit_log")
      .select(["action", "outcome", "actor_id", "changes", "reason"])
      .where("project_id", "=", api.projectId)
      .where("action", "like", "person.provider_%")
      // What the visits came to, not what the API refused at once.
      .where((row) =>
        row.or([row("outcome", "=", "success"), row("reason", "like", "Connecting %")]),
      )
      .orderBy("id")
      .execute()
  );
}

test("whoever is signed in connects an account of another address, signs in with it, and disconnects it", async (t) => {
  const fixture = await startFixture(t);
  const hers = await adasBrowser(fixture);
  const unconnected = { id: "oidc", name: "SSO", connectedAt: null, email: null };
  assert.deepEqual(await hers.methods(), { hasPassword: true, providers: [unconnected] });
  assert.equal(await hers.connect(adaElsewhere), "/dashboard/account");
  const { providers } = await hers.methods();
  assert.deepEqual([providers[0].email, providers.length], ["ada@home.test", 1]);
  const rows = await fixture.api.db
    .selectFrom("person_accounts")
    .select(["access_token", "refresh_token", "id_token", "scope"])
    .where("provider_id", "=", "oidc")
    .execute();
  assert.deepEqual(rows, [
    { access_token: null, refresh_token: null, id_token: null, scope: null },
  ]);

  const browser = new SmallBrowser();
  assert.equal(await visit(fixture, adaElsewhere, browser), "/dashboard/device?code=A");
  const me = await meOf(fixture, browser);
  assert.deepEqual([me.person.id, me.person.email], [fixture.adaId, adasEmail]);

  assert.equal((await hers.change("connect")).status, 409, "there is one already");
  assert.equal((await hers.change("disconnect")).status, 200);
  assert.deepEqual(await hers.methods(), { hasPassword: true, providers: [unconnected] });
  assert.equal((await hers.change("disconnect")).status, 404);
  assert.equal(await visit(fixture, adaElsewhere), "/dashboard#sign-in-problem=not_invited");
  const about = { outcome: "success", actor_id: fixture.adaId, reason: null };
  const account = "ada@home.test";
  assert.deepEqual(await connections(fixture), [
    {
      ...about,
      action: "person.provider_connect",
      changes: { oidc: { old: "none", new: account } },
    },
    {
      ...about,
      action: "person.provider_disconnect",
      changes: { oidc: { old: account, new: "none" } },
    },
  ]);
});

test("an account that is somebody else's way to sign in is connected to nobody, and neither is one without a proven address", async (t) => {
  const fixture = await startFixture(t);
  const grace = { sub: "grace", email: "grace@example.test", emailVerified: true };
  await invite(fixture, grace.email);
  await visit(fixture, grace);
  const hers = await adasBrowser(fixture);
  assert.equal(await hers.connect(grace), "/dashboard/account#sign-in-problem=account_taken");
  const next = await adasBrowser(fixture);
  const place = await next.connect({ ...adaElsewhere, emailVerified: false });
  assert.equal(place, "/dashboard/account#sign-in-problem=address_not_proven");
  assert.equal((await hers.methods()).providers[0].connectedAt, null);
  const entries = (await connections(fixture)).map(({ outcome, actor_id, reason }) => [
    outcome,
    actor_id,
    reason,
  ]);
  const refusal = (why: string) => [
    "failure",
    fixture.adaId,
    `Connecting an account with oidc was refused: ${why}.`,
  ];
  assert.deepEqual(entries, [refusal("account_taken"), refusal("address_not_proven")]);
  const browser = new SmallBrowser();
  await visit(fixture, grace, browser);
  const me = await meOf(fixture, browser);
  assert.equal(me.person.email, grace.email, "it is still hers");
});

test("an account is connected with the password only, in the browser that began, and while the session lasts", async (t) => {
  const fixture = await startFixture(t);
  const hers = await adasBrowser(fixture);
  for (const password of [null, "not hers at all"]) {
    const { status, body } = await hers.change("connect", password);
    assert.deepEqual([status, body.message], [422, "The password is wrong."]);
  }
  const { status } = await fixture.post("/v2/auth/sign-in-methods/connect", { provider: "oidc" });
  assert.equal(status, 401);

  fixture.oidc.account = adaElsewhere;
  const callback = `${fixture.api.baseUrl}/v2/auth/callback/oidc`;
  const { location } = await hers.browser.follow((await hers.change("connect")).body.url, callback);
  const elsewhere = await new SmallBrowser().send(location);
  assert.match(elsewhere.headers.get("location") ?? "", /#sign-in-problem=expired$/);
  assert.equal(
    (await hers.methods()).providers[0].connectedAt,
    null,
    "nobody connects an account by a link for others",
  );

  const late = await adasBrowser(fixture);
  const { url } = (await late.change("connect")).body;
  await fixture.api.db
    .deleteFrom("person_sessions")
    .where("person_id", "=", fixture.adaId)
    .execute();
  const { location: end } = await late.browser.follow(url, "/dashboard");
  assert.equal(end, "/dashboard/account#sign-in-problem=expired");
  const reason = "Connecting an account with oidc was refused: expired.";
  const entries = (await connections(fixture)).map((entry) => [
    entry.outcome,
    entry.actor_id,
    entry.reason,
  ]);
  const refusal = ["failure", null, reason];
  assert.deepEqual(entries, [refusal, refusal]);
});

test("two visits at once connect one account, which is the one that is listed", async (t) => {
  const fixture = await startFixture(t);
  const hers = await adasBrowser(fixture);
  const late = await adasBrowser(fixture);
  const { url } = (await late.change("connect")).body;
  assert.equal(await hers.connect(adaElsewhere), "/dashboard/account");
  fixture.oidc.account = { sub: "mallory", email: "mallory@example.test", emailVerified: true };
  const { location } = await late.browser.follow(url, "/dashboard");
  assert.equal(location, "/dashboard/account#sign-in-problem=expired");
  const rows = fixture.api.db
    .selectFrom("person_accounts")
    .select("email")
    .where("provider_id", "=", "oidc");
  assert.deepEqual(await rows.execute(), [{ email: "ada@home.test" }]);
  const entries = (await connections(fixture)).map(({ outcome }) => outcome);
  assert.deepEqual(entries, ["success", "failure"]);
});

test("connecting an account neither prolongs the session nor sets a cookie for it", async (t) => {
  const fixture = await startFixture(t);
  const { accessToken } = await fixture.signIn();
  const soon = new Date(Date.now() + 2 * 86_400_000);
  await fixture.api.db.updateTable("person_sessions").set({ expires_at: soon }).execute();
  const response = await fetch(`${fixture.api.baseUrl}/v2/auth/sign-in-methods/connect`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "sec-fetch-site": "same-origin",
      authorization: `Bearer ${accessToken}`,
    },
    body: JSON.stringify({ provider: "oidc", password: adasPassword }),
  });
  assert.equal(response.status, 200);
  const names = response.headers.getSetCookie().map((line) => line.split("=")[0]);
  assert.deepEqual(names, ["slipway.state"]);
  const sessions = await fixture.api.db
    .selectFrom("person_sessions")
    .select("expires_at")
    .execute();
  assert.deepEqual(
    new Set(sessions.map(({ expires_at }) => expires_at.getTime())),
    new Set([soon.getTime()]),
  );
});

test("the last way to sign in is not disconnected", async (t) => {
  const fixture = await startFixture(t);
  const hers = await adasBrowser(fixture);
  await hers.connect(adaElsewhere);
  const accounts = fixture.api.db
    .deleteFrom("person_accounts")
    .where("person_id", "=", fixture.adaId);
  await accounts.where("provider_id", "=", "credential").execute();
  // One of an issuer that is no longer set up lets nobody in.
  const old = {
    id: randomUUID(),
    person_id: fixture.adaId,
    provider_id: "github",
    account_id: "http://127.0.0.1:9 5",
  };
  await fixture.api.db.insertInto("person_accounts").values(old).execute();
  const { status, body } = await hers.change("disconnect", null);
  assert.equal(status, 409);
  assert.match(body.message, /^The account with SSO is your only way to sign in: /);
  assert.equal(await visit(fixture, adaElsewhere), "/dashboard/device?code=A");
});

test("whoever is mailed a link to an unproven address gets the account without what was connected before", async (t) => {
  const fixture = await startFixture(t);
  const hers = await adasBrowser(fixture);
  assert.equal(await hers.connect(adaElsewhere), "/dashboard/account");
  await mailed(fixture, /A new way to sign in/);
  await fixture.post("/v2/auth/password/forgot", { email: adasEmail });
  const [, secret = ""] = await mailed(fixture, /reset-password\/([\w-]+)/);
  const password = "a password of the owner";
  assert.equal(
    (await fixture.post("/v2/auth/password/reset", { token: secret, password })).status,
    200,
  );
  assert.equal(await visit(fixture, adaElsewhere), "/dashboard#sign-in-problem=not_invited");
});
