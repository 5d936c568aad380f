// Signing in with GitHub, as its OAuth addresses answer: a stand-in has them, since the real one
// cannot be asked here.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { Secret } from "#lib/secret.ts";
import "#test/support/leftovers.ts";
import { SmallBrowser } from "#test/support/oidc-server.ts";
import { adasEmail, startPeopleStage, type PeopleStage } from "./people-stage.ts";

/** A text is sent as it is. */
type Emails = string | readonly { email: string; primary: boolean; verified: boolean }[];
type Github = {
  readonly url: string;
  emails: Emails;
  userStatus: number;
  readonly asked: string[];
};

const clientSecret = "github's secret";
const code = "a code of GitHub";
const accessToken = "gho_a-token";

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}

/** GitHub Enterprise Server, as far as signing in goes: it checks what a client has to send. */
async function startGithub(t: TestContext): Promise<Github> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const github: Github = {
    url,
    emails: [
      { email: "old@example.test", primary: false, verified: true },
      { email: adasEmail, primary: true, verified: true },
    ],
    userStatus: 200,
    asked: [],
  };
  server.on("request", (request, response) => void answer(request, response));
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? "/", url);
    github.asked.push(`${request.method} ${pathname}`);
    const json = (status: number, body: unknown): void => {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      response.writeHead(status, { "content-type": "application/json" }).end(text);
    };
    if (pathname === "/login/oauth/authorize") {
      const back = new URL(searchParams.get("redirect_uri") ?? "");
      back.searchParams.set("code", code);
      back.searchParams.set("state", searchParams.get("state") ?? "");
      response.writeHead(302, { location: back.href }).end();
      return;
    }
    if (pathname === "/login/oauth/access_token") {
      const form = new URLSearchParams(await textOf(request));
      const isRight =
        form.get("code") === code &&
        form.get("client_secret") === clientSecret &&
        form.has("code_verifier");
      // GitHub answers 200 either way.
      return json(
        200,
        isRight
          ? { access_token: accessToken, token_type: "bearer" }
          : { error: "bad_verification_code" },
      );
    }
    if (request.headers.authorization !== `Bearer ${accessToken}`)
      return json(401, { message: "Bad credentials" });
    if (pathname === "/api/v3/user")
      return json(github.userStatus, { id: 4711, login: "ada", name: null });
    if (pathname === "/api/v3/user/emails") return json(200, github.emails);
    return json(404, { message: "Not Found" });
  };
  return github;
}

async function startFixture(t: TestContext): Promise<PeopleStage & { readonly github: Github }> {
  const github = await startGithub(t);
  const client = {
    url: github.url,
    clientId: "slipway",
    clientSecret: new Secret(clientSecret),
    name: "GitHub",
  };
  return { ...(await startPeopleStage(t, { github: client })), github };
}

/** A whole visit; where the browser ends up. */
async function visit({ api }: PeopleStage, browser = new SmallBrowser()): Promise<string> {
  const response = await browser.send(`${api.baseUrl}/v2/auth/sign-in/provider`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: api.baseUrl },
    body: JSON.stringify({ provider: "github" }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  const { url } = (await response.json()) as { url: string };
  return (await browser.follow(url, "/dashboard")).location;
}

test("a person signs in with GitHub by the address that GitHub has proven", async (t) => {
  const fixture = await startFixture(t);
  const browser = new SmallBrowser();
  assert.equal(await visit(fixture, browser), "/dashboard");
  const token = await browser.send(`${fixture.api.baseUrl}/v2/auth/token`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: fixture.api.baseUrl },
    body: "{}",
  });
  const { access_token } = (await token.json()) as { access_token: string };
  const { body: me } = await fixture.api.call("GET", "/v2/auth/session", { token: access_token });
  assert.equal(me.person.id, fixture.adaId);
  const { account_id } = await fixture.api.db
    .selectFrom("person_accounts")
    .select("account_id")
    .where("provider_id", "=", "github")
    .executeTakeFirstOrThrow();
  assert.equal(account_id, `${fixture.github.url} 4711`);
  assert.equal(await visit(fixture), "/dashboard", "and again, by the account at GitHub");
});

test("an address that GitHub has not proven lets nobody in, and neither does a GitHub that fails", async (t) => {
  const fixture = await startFixture(t);
  fixture.github.emails = [{ email: adasEmail, primary: true, verified: false }];
  assert.equal(await visit(fixture), "/dashboard#sign-in-problem=address_not_proven");
  fixture.github.emails = [{ email: "eve@example.test", primary: true, verified: true }];
  assert.equal(await visit(fixture), "/dashboard#sign-in-problem=not_invited");
  fixture.github.emails = [];
  assert.equal(await visit(fixture), "/dashboard#sign-in-problem=failed");
  fixture.github.userStatus = 500;
  assert.equal(await visit(fixture), "/dashboard#sign-in-problem=failed");
  fixture.github.userStatus = 200;
  fixture.github.emails = "<html>";
  assert.equal(await visit(fixture), "/dashboard#sign-in-problem=failed", "a page for people");
  await fixture.signIn();
});
