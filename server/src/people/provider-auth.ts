// better-auth as the client of the providers that the operator has set up: OpenID Connect and GitHub. It makes the visit
// to the provider (state, PKCE, nonce), takes the code back and checks the ID token; who is let in is for provider-gate.ts.
// All addresses that it calls are the operator's setting, or what the provider there says of itself.
import { betterAuth } from "better-auth";
import { genericOAuth, type GenericOAuthConfig } from "better-auth/plugins/generic-oauth";
import { oneLine } from "#lib/one-line.ts";
import { Secret } from "#lib/secret.ts";
import { authSettings, type AuthOptions } from "./auth.ts";
import { githubProfile } from "./github-profile.ts";
import type { ProviderSettings } from "./people-settings.ts";
import type { ProviderGate } from "./provider-gate.ts";

/** Who vouches for people. */
export type ProviderId = "oidc" | "github";

export type ProviderAuthOptions = AuthOptions & {
  readonly oidc: ProviderSettings | null;
  readonly github: ProviderSettings | null;
  readonly gate: ProviderGate;
};

/** The instance that signs in with providers. Apart from the other, since it looks the provider up when it is opened. */
export function openProviderAuth(options: ProviderAuthOptions) {
  const { oidc, github, gate } = options;
  const settings = authSettings(options);
  const { cookiePrefix, database, ipAddress } = settings.advanced;
  return betterAuth({
    ...settings,
    user: { ...settings.user, validateUserInfo: ({ user, source }) => gate.check(user, source) },
    // An account here is linked to one there of the same proven address; the gate sees to what was not proven here.
    account: { ...settings.account, accountLinking: { enabled: true, requireLocalEmailVerified: false } },
    advanced: {
      ...{ cookiePrefix, database, ipAddress },
      // The provider sends the browser back from another site: a strict cookie would stay behind.
      cookies: { state: { attributes: { path: settings.basePath, sameSite: "lax", httpOnly: true } } },
    },
    databaseHooks: {
      account: { create: { before: async (account) => ({ data: { ...account, ...noTokens } }) } },
    },
    plugins: [
      genericOAuth({
        config: [...(oidc === null ? [] : [oidcConfig(oidc)]), ...(github === null ? [] : [githubConfig(github)])],
      }),
    ],
  });
}

export type ProviderAuth = ReturnType<typeof openProviderAuth>;

/** Nothing is done at the provider in a person's name. */
const noTokens = {
  accessToken: null,
  refreshToken: null,
  idToken: null,
  accessTokenExpiresAt: null,
  refreshTokenExpiresAt: null,
  scope: null,
};

function oidcConfig({ url, clientId, clientSecret, name }: ProviderSettings): GenericOAuthConfig {
  return {
    providerId: "oidc",
    name,
    discoveryUrl: `${url}/.well-known/openid-configuration`,
    requireIdTokenVerification: true,
    clientId,
    clientSecret: clientSecret.reveal(),
    scopes: ["openid", "email", "profile"],
    // With the issuer: another provider, set up later, may use the same subjects for other people.
    accountSubject: ({ profile }) => `${url} ${String(profile.sub)}`,
    mapProfileToUser: userOf,
  };
}

function githubConfig({ url, clientId, clientSecret, name }: ProviderSettings): GenericOAuthConfig {
  return {
    providerId: "github",
    name,
    authorizationUrl: `${url}/login/oauth/authorize`,
    tokenUrl: `${url}/login/oauth/access_token`,
    clientId,
    clientSecret: clientSecret.reveal(),
    scopes: ["read:user", "user:email"],
    accountSubject: ({ profile }) => `${url} ${String(profile.id)}`,
    getUserInfo: ({ accessToken }) => githubProfile(url, new Secret(accessToken ?? "")),
    mapProfileToUser: userOf,
  };
}

/** ASCII only, as of all who are invited. */
const plainForm = /^[\x21-\x7e]+$/;

/**
 * What is taken over of a profile. An address that nobody could be invited by is proven for nobody: some of its letters may
 * become plain ones as small letters (the Kelvin sign becomes a k), and so it would become somebody else's.
 */
function userOf({ name: called, email }: { readonly name?: unknown; readonly email?: unknown }) {
  const user = { name: nameOf(called, email), image: undefined };
  return plainForm.test(String(email)) ? user : { ...user, emailVerified: false };
}

const nameLengthMax = 100;

/** What the provider calls them, without what would break a line; else the address. */
function nameOf(called: unknown, email: unknown): string {
  const text = typeof called === "string" ? oneLine(called).trim() : "";
  return (text === "" ? String(email) : text).slice(0, nameLengthMax);
}
