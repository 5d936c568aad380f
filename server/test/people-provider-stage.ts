// People who sign in with an OpenID Connect provider, a real one: visits to it, and what came of
// them.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { Secret } from "#lib/secret.ts";
import type { PeopleSettings } from "#people/people-settings.ts";
import {
  SmallBrowser,
  startOidcServer,
  type OidcAccount,
  type OidcServer,
} from "#test/support/oidc-server.ts";
import { adasEmail, startPeopleStage, type PeopleStage } from "./people-stage.ts";

/** Her account there. */
export const ada: OidcAccount = {
  sub: "ada-there",
  email: adasEmail,
  emailVerified: true,
  name: "Ada L.",
};

/** The stage with its provider. */
export type Fixture = PeopleStage & { readonly oidc: OidcServer };

/** Starts it; everything is closed after the test. */
export async function startFixture(
  t: TestContext,
  settings: Partial<PeopleSettings> = {},
): Promise<Fixture> {
  let baseUrl = "";
  const oidc = await startOidcServer(t, {
    account: ada,
    redirectUri: () => `${baseUrl}/v2/auth/callback/oidc`,
  });
  const client = {
    url: oidc.issuer,
    clientId: oidc.clientId,
    clientSecret: new Secret(oidc.clientSecret),
    name: "SSO",
  };
  const stage = await startPeopleStage(t, { oidc: client, ...settings });
  baseUrl = stage.api.baseUrl;
  return { ...stage, oidc };
}

/** Begins a visit; returns where the browser is sent. */
export async function begin(
  { api }: Fixture,
  browser: SmallBrowser,
  returnTo = "/dashboard/device?code=A",
): Promise<string> {
  const response = await browser.send(`${api.baseUrl}/v2/auth/sign-in/provider`, {
    method: "POST",
    headers: { "content-type": "application/json", "sec-fetch-site": "same-origin" },
    body: JSON.stringify({ provider: "oidc", returnTo }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  return ((await response.json()) as { url: string }).url;
}

/** A whole visit; where the browser ends up in the dashboard. */
export async function visit(
  fixture: Fixture,
  account: OidcAccount,
  browser = new SmallBrowser(),
): Promise<string> {
  fixture.oidc.account = account;
  const { location } = await browser.follow(await begin(fixture, browser), "/dashboard");
  return location;
}

/** An access token for the browser's session, or null. */
export async function tokenOf({ api }: Fixture, browser: SmallBrowser): Promise<string | null> {
  const response = await browser.send(`${api.baseUrl}/v2/auth/token`, {
    method: "POST",
    headers: { "content-type": "application/json", "sec-fetch-site": "same-origin" },
    body: "{}",
  });
  return response.ok ? ((await response.json()) as { access_token: string }).access_token : null;
}

/** Whose session the browser has. */
export async function meOf(fixture: Fixture, browser: SmallBrowser) {
  return (
    await fixture.api.call("GET", "/v2/auth/session", { token: await tokenOf(fixture, browser) })
  ).body;
}

/** An invitation to the first project. */
export async function invite({ api }: Fixture, email: string): Promise<void> {
  const times = { created_at: new Date(), expires_at: new Date("2100-01-01") };
  const row = {
    id: randomUUID(),
    project_id: api.projectId,
    email,
    role: "member",
    secret_hash: randomBytes(32),
  };
  await api.db
    .insertInto("invitations")
    .values({ ...row, ...times, role: "member" })
    .execute();
}
