// ID tokens that are not what they should be sign nobody in: a stand-in of a provider makes them,
// since a real one cannot be had to. And a provider that never answers keeps nobody else from
// signing in.
import assert from "node:assert/strict";
import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { Secret } from "#lib/secret.ts";
import "#test/support/leftovers.ts";
import { SmallBrowser } from "#test/support/oidc-server.ts";
import { adasEmail, startPeopleStage, type PeopleStage } from "./people-stage.ts";

type Claims = Record<string, unknown>;
type Forge = (right: { claims: Claims; key: KeyObject }) => {
  claims: Claims;
  key: KeyObject | null;
};

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const { privateKey: otherKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Without a key: unsigned, as `alg: none` has it. */
function jwtOf(claims: Claims, key: KeyObject | null): string {
  const header = key === null ? { alg: "none" } : { alg: "RS256", kid: "key" };
  const signed = `${encode(header)}.${encode(claims)}`;
  return `${signed}.${key === null ? "" : sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
}

async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function startForger(t: TestContext): Promise<{ readonly issuer: string; forge: Forge }> {
  const forger = {
    issuer: "",
    forge: (right: { claims: Claims; key: KeyObject }) => right as ReturnType<Forge>,
  };
  let nonce: string | null = null;
  forger.issuer = await listen(t, (request: IncomingMessage, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", forger.issuer);
    const json = (body: unknown): void => {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    const at = (path: string): string => forger.issuer + path;
    if (pathname === "/.well-known/openid-configuration") {
      const endpoints = {
        authorization_endpoint: at("/auth"),
        token_endpoint: at("/sso/token"),
        jwks_uri: at("/jwks"),
      };
      return json({
        issuer: forger.issuer,
        ...endpoints,
        id_token_signing_alg_values_supported: ["RS256"],
      });
    }
    if (pathname === "/jwks")
      return json({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "key", alg: "RS256" }] });
    if (pathname === "/auth") {
      nonce = searchParams.get("nonce");
      const back = new URL(searchParams.get("redirect_uri") ?? "");
      back.search = new URLSearchParams({
        code: "c",
        state: searchParams.get("state") ?? "",
      }).toString();
      response.writeHead(302, { location: back.href }).end();
      return;
    }
    const now = Math.floor(systemClock.now() / 1000);
    const person = { sub: "ada", email: adasEmail, email_verified: true, name: "Ada" };
    const claims = {
      iss: forger.issuer,
      aud: "slipway",
      iat: now,
      exp: now + 300,
      nonce,
      ...person,
    };
    const made = forger.forge({ claims, key: privateKey });
    json({ access_token: "a", token_type: "Bearer", id_token: jwtOf(made.claims, made.key) });
  });
  return forger;
}

async function visit({ api }: PeopleStage): Promise<string> {
  const browser = new SmallBrowser();
  const response = await browser.send(`${api.baseUrl}/v2/auth/sign-in/provider`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ provider: "oidc" }),
  });
  const { url } = (await response.json()) as { url: string };
  return (await browser.follow(url, "/dashboard")).location;
}

const forgeries: Readonly<Record<string, Forge>> = {
  "signed by another key": ({ claims }) => ({ claims, key: otherKey }),
  "not signed": ({ claims }) => ({ claims, key: null }),
  "for another client": ({ claims, key }) => ({ claims: { ...claims, aud: "somebody-else" }, key }),
  "of another issuer": ({ claims, key }) => ({
    claims: { ...claims, iss: "https://evil.example" },
    key,
  }),
  "of another visit": ({ claims, key }) => ({ claims: { ...claims, nonce: "another" }, key }),
  "without the visit's nonce": ({ claims, key }) => ({
    claims: { ...claims, nonce: undefined },
    key,
  }),
  "that has expired": ({ claims, key }) => ({ claims: { ...claims, exp: 1_000_000_000 }, key }),
  "without a subject": ({ claims, key }) => ({ claims: { ...claims, sub: undefined }, key }),
};

test("an ID token signs somebody in only when all of it is right", async (t) => {
  const forger = await startForger(t);
  const client = {
    url: forger.issuer,
    clientId: "slipway",
    clientSecret: new Secret("secret"),
    name: "SSO",
  };
  const stage = await startPeopleStage(t, { oidc: client });
  for (const [what, forge] of Object.entries(forgeries)) {
    forger.forge = forge;
    assert.equal(await visit(stage), "/dashboard#sign-in-problem=failed", `one ${what}`);
  }
  forger.forge = (right) => right;
  assert.equal(await visit(stage), "/dashboard", "the right one");
  forger.forge = ({ claims, key }) => ({
    claims: { ...claims, sub: "eve", email_verified: "false" },
    key,
  });
  assert.equal(
    await visit(stage),
    "/dashboard#sign-in-problem=address_not_proven",
    "a text is no proof",
  );
});

test("a provider that calls itself another is not taken", async (t) => {
  const forger = await startForger(t);
  const alias = forger.issuer.replace("127.0.0.1", "localhost");
  const client = {
    url: alias,
    clientId: "slipway",
    clientSecret: new Secret("secret"),
    name: "SSO",
  };
  const stage = await startPeopleStage(t, { oidc: client });
  const { status } = await stage.post("/v2/auth/sign-in/provider", { provider: "oidc" });
  assert.equal(status, 503);
});

test("a provider that never answers is given up on, and passwords go on meanwhile", async (t) => {
  const url = await listen(t, () => undefined);
  const client = { url, clientId: "slipway", clientSecret: new Secret("secret"), name: "SSO" };
  let waitsMs: number[] = [];
  const clock = {
    ...systemClock,
    after: (ms: number, run: () => void): (() => void) => {
      waitsMs = [...waitsMs, ms];
      return systemClock.after(ms === 20_000 ? 100 : ms, run);
    },
  };
  const stage = await startPeopleStage(t, { oidc: client, clock });
  const begun = stage.post("/v2/auth/sign-in/provider", { provider: "oidc" });
  await stage.signIn();
  const { status } = await begun;
  assert.deepEqual([status, waitsMs.includes(20_000)], [503, true]);
});
