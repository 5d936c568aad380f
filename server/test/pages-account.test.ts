// A person's account in a real browser: the second step of a sign-in, a forgotten password, a
// provider, and the page on which they change these. Without a Chromium on the machine these tests
// are skipped, and say so.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { Secret } from "#lib/secret.ts";
import {
  adasEmail,
  adasPassword,
  appCode,
  startPeopleStage,
  type PeopleStage,
} from "./people-stage.ts";
import type { Page } from "./support/browser.ts";
import { startOidcServer, type OidcServer } from "./support/oidc-server.ts";
import { makePerson } from "./support/person.ts";
import { openPages, signInOn, withoutBrowser, type OpenPage } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

const ada = { email: adasEmail, password: adasPassword };

type Stage = PeopleStage & { readonly open: OpenPage };

async function setUp(
  t: TestContext,
  settings: Parameters<typeof startPeopleStage>[1] = {},
): Promise<Stage> {
  const stage = await startPeopleStage(t, settings);
  return { ...stage, open: await openPages(t, stage.api.baseUrl) };
}

/** With a provider at which Ada has an account. */
async function withProvider(t: TestContext): Promise<Stage & { readonly oidc: OidcServer }> {
  let baseUrl = "";
  const account = { sub: "ada-there", email: adasEmail, emailVerified: true, name: "Ada L." };
  const oidc = await startOidcServer(t, {
    account,
    redirectUri: () => `${baseUrl}/v2/auth/callback/oidc`,
  });
  const client = {
    url: oidc.issuer,
    clientId: oidc.clientId,
    clientSecret: new Secret(oidc.clientSecret),
    name: "SSO",
  };
  const stage = await setUp(t, { oidc: client });
  ({ baseUrl } = stage.api);
  return { ...stage, oidc };
}

/** Turns it on, as the page shows it; returns what the authenticator app has. */
async function turnOn(page: Page): Promise<{ uri: string; backupCodes: string[] }> {
  await page.shows("It is off.");
  await page.type("Your password", adasPassword);
  await page.click("Turn on");
  await page.shows("Store these backup codes");
  const uri = await page.evaluate("document.querySelector('a[href^=\"otpauth:\"]').href");
  const backupCodes = (await page.evaluate("document.querySelector('pre').textContent")).split(
    "\n",
  );
  await page.type("Authenticator code", appCode(uri));
  await page.click("Confirm");
  await page.shows("It is on");
  return { uri, backupCodes };
}

describe("a person's account in a browser", { skip: withoutBrowser }, () => {
  test("two-factor sign-in is turned on, asked for as a second step, and turned off", async (t) => {
    const { open } = await setUp(t);
    const page = await open("/dashboard/account");
    await signInOn(page, ada);
    const { uri, backupCodes } = await turnOn(page);
    assert.equal(backupCodes.length, 10);
    await page.click("Sign out");
    await signInOn(page, ada);
    await page.shows("Second step");
    assert.equal(await page.evaluate("document.activeElement.autocomplete"), "one-time-code");
    await page.type("Code", "000000");
    await page.press("Enter");
    await until("the wrong code is told", () =>
      page.evaluate("document.querySelector('.error').textContent !== ''"),
    );
    await page.type("Code", appCode(uri, 1));
    await page.press("Enter");
    await page.shows("It is on");
    await page.click("Turn it off");
    await page.type("Your password", adasPassword);
    await page.type("Authenticator code", backupCodes[0] ?? "");
    await page.click("Turn off");
    await page.shows("It is off.");
    assert.equal(await page.evaluate("document.body.innerText.includes('challenge')"), false);
  });

  test("a forgotten password is replaced by the mailed link, and the old one is good no more", async (t) => {
    const { open, mail } = await setUp(t);
    const page = await open("/dashboard");
    await page.click("Forgot your password?");
    await page.shows("Send link");
    await page.type("Email", adasEmail);
    await page.click("Send link");
    await page.shows("Check your mail");
    const { text } = await mail.next(adasEmail);
    const link = /http\S+\/dashboard\/reset-password\/[\w-]+/.exec(text)?.[0] ?? "";
    await page.goTo(link);
    await page.type("New password", "another long password");
    await page.click("Set password");
    await page.shows("Password changed");
    await page.click("Go to sign-in");
    await signInOn(page, ada);
    await page.shows("The email address or the password is wrong.");
    await signInOn(page, { email: adasEmail, password: "another long password" });
    await page.shows("Projects");
    await page.goTo(link);
    await page.type("New password", "yet another password");
    await page.click("Set password");
    await until("a used link is refused", () =>
      page.evaluate("document.querySelector('.error').textContent !== ''"),
    );
  });

  test("an account with a provider is connected and disconnected, and one of somebody else's is refused", async (t) => {
    const { open, oidc, api, signIn } = await withProvider(t);
    const page = await open("/dashboard/account");
    await signInOn(page, ada);
    await page.shows("not connected");
    const connect = async (on: Page, password: string): Promise<void> => {
      await on.click("Connect SSO");
      await on.type("Your password", password);
      await on.click("Connect");
    };
    oidc.account = { sub: "ada-at-home", email: "ada@home.test", emailVerified: true };
    await connect(page, "not hers at all");
    await page.shows("The password is wrong.");
    await page.reload();
    await connect(page, adasPassword);
    await page.shows("ada@home.test");
    await page.click("Disconnect SSO");
    await page.shows(`that has the address ${adasEmail} can still sign you in`);
    await page.type("Your password", adasPassword);
    await page.click("Disconnect");
    await page.shows("not connected");

    oidc.account = { sub: "eve-there", email: "eve@example.test", emailVerified: true };
    await makePerson(api.db, {
      email: "eve@example.test",
      name: "Eve",
      password: "correct horse battery",
    });
    const hers = await open("/dashboard");
    await hers.click("Sign in with SSO");
    await hers.shows("You are in no project.");
    // The provider knows the first browser as hers.
    const another = await open("/dashboard/account");
    await signInOn(another, ada);
    await connect(another, adasPassword);
    await another.shows("This account already signs somebody else in here");
    const { accessToken } = await signIn();
    const { body } = await api.call("GET", "/v2/auth/sign-in-methods", { token: accessToken });
    assert.equal(body.providers[0].connectedAt, null);
  });

  test("a provider signs in who is known, on the page that was asked for; strangers are told why not, until they are invited", async (t) => {
    const { api, open, oidc } = await withProvider(t);
    const { baseUrl } = api;
    const page = await open("/dashboard/device?code=BCDF-GHJK");
    await page.click("Sign in with SSO");
    await page.shows("No device is showing this code");
    await page.shows(`You are signed in as ${adasEmail}.`);
    oidc.account = { sub: "eve-there", email: "eve@example.test", emailVerified: true };
    const other = await open("/dashboard");
    await other.click("Sign in with SSO");
    await other.shows("Ask for an invitation.");
    assert.equal(await other.evaluate("location.href"), `${baseUrl}/dashboard`);
    const invitation = { email: "eve@example.test", role: "member" };
    const { body } = await api.call("POST", `/v2/projects/${api.projectId}/invitations`, {
      body: invitation,
    });
    await other.goTo(body.link);
    await other.shows("Your name");
    await other.click("Sign in with SSO");
    await other.click("Join first");
    await other.shows("No apps yet.");
  });

  test("other sign-ins are shown and ended, one by one and with a changed password", async (t) => {
    const { api, open, signIn, adaId } = await setUp(t);
    const first = await signIn();
    const second = await signIn();
    const page = await open("/dashboard/account");
    await signInOn(page, ada);
    await page.shows("this session");
    await page.click("End");
    const sessions = (): Promise<{ id: string }[]> =>
      api.db.selectFrom("person_sessions").select("id").where("person_id", "=", adaId).execute();
    await until("one session has ended", async () => (await sessions()).length === 2);
    await until(
      "it is shown no more",
      async () =>
        (await page.evaluate(
          "document.querySelectorAll('[aria-label=\"Active sessions\"] tbody tr').length",
        )) === 2,
    );
    await page.type("Current password", adasPassword);
    await page.type("New password", "another long password");
    await page.click("Change password");
    await until("all others have ended", async () => (await sessions()).length === 1);
    for (const { accessToken } of [first, second]) {
      await until("an ended session's token is refused", async () => {
        return (await api.call("GET", "/v2/projects", { token: accessToken })).status === 401;
      });
    }
    await until(
      "only this one is shown",
      async () =>
        (await page.evaluate(
          "document.querySelectorAll('[aria-label=\"Active sessions\"] tbody tr').length",
        )) === 1,
    );
    await page.reload();
    await page.shows("Your account");
  });
});
