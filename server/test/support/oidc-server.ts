// A real OpenID Connect provider on a free port of this machine that signs in every visitor as the
// account that the test sets; and a minimal browser that handles redirects and cookies.
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import Provider from "oidc-provider";

export type OidcAccount = {
  readonly sub: string;
  readonly email: string;
  readonly emailVerified: boolean;
  readonly name?: string;
};

export type OidcServer = {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Sets the account that signs in from now on. */
  account: OidcAccount;
};

/** Starts it for a client with this `redirectUri`; stopped after the test. */
export async function startOidcServer(
  t: TestContext,
  given: { readonly account: OidcAccount; readonly redirectUri: () => string },
): Promise<OidcServer> {
  const http = createServer();
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(async () => {
    http.closeAllConnections();
    http.close();
    await once(http, "close");
  });
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const server: OidcServer = {
    issuer,
    clientId: "slipway",
    clientSecret: "a secret between the two",
    account: given.account,
  };
  const accounts = new Map<string, OidcAccount>();
  // The platform's address is known only after it was given the issuer, so the provider is created
  // lazily.
  let made: Provider | undefined;
  http.on("request", (request, response) => {
    made ??= makeProvider(server, accounts, given.redirectUri());
    const provider = made;
    if (request.url?.startsWith("/interaction/") !== true)
      return void provider.callback()(request, response);
    accounts.set(server.account.sub, server.account);
    void provider.interactionFinished(request, response, {
      login: { accountId: server.account.sub },
    });
  });
  return server;
}

function makeProvider(
  server: OidcServer,
  accounts: Map<string, OidcAccount>,
  redirectUri: string,
): Provider {
  const client = {
    client_id: server.clientId,
    client_secret: server.clientSecret,
    redirect_uris: [redirectUri],
    token_endpoint_auth_method: "client_secret_post" as const,
  };
  return new Provider(server.issuer, {
    clients: [client],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    // The management API has a route /token too, and checked-answers.ts would validate fetched
    // answers against it.
    routes: { token: "/sso/token" },
    ttl: { Interaction: 600, Grant: 600, Session: 600, AccessToken: 600, IdToken: 600 },
    cookies: { keys: ["a key for the test"] },
    async findAccount(_, id) {
      const found = accounts.get(id);
      if (found === undefined) return undefined;
      const { sub, email, emailVerified, name = sub } = found;
      return { accountId: id, claims: () => ({ sub, email, email_verified: emailVerified, name }) };
    },
    // No consent page.
    async loadExistingGrant(context) {
      const { client: asking, session } = context.oidc;
      const grant = new context.oidc.provider.Grant({
        clientId: asking?.clientId ?? "",
        accountId: session?.accountId ?? "",
      });
      grant.addOIDCScope("openid email profile");
      await grant.save();
      return grant;
    },
  });
}

/** A minimal browser: cookies by host, one redirect at a time. */
export class SmallBrowser {
  readonly #cookies = new Map<string, Map<string, string>>();

  /** Sends one request; its cookies are stored. */
  async send(url: string, init: RequestInit = {}): Promise<Response> {
    const { host } = new URL(url);
    const jar = this.#cookies.get(host) ?? new Map<string, string>();
    this.#cookies.set(host, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = {
      ...(init.headers as Record<string, string> | undefined),
      ...(cookie === "" ? {} : { cookie }),
    };
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    for (const line of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/Max-Age=0|expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /**
   * Follows redirects until a path starts with `end`, or there are none left; returns the last URL
   * and answer.
   */
  async follow(url: string, end: string): Promise<{ location: string; response: Response }> {
    for (let at = url, hops = 0; hops < 20; hops++) {
      const response = await this.send(at);
      const location = response.headers.get("location");
      if (location === null) return { location: at, response };
      if (location.startsWith(end)) return { location, response };
      at = new URL(location, at).href;
    }
    throw new Error("too many redirects");
  }

  /** Cookies of a host by name. */
  cookiesOf(url: string): ReadonlyMap<string, string> {
    return this.#cookies.get(new URL(url).host) ?? new Map();
  }
}
