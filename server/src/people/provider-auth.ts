// better-auth as the client of the providers that the operator has set up: OpenID Connect and
// GitHub. It makes the visit to the provider (state, PKCE, nonce), takes the code back and checks
// the ID token; who is let in is for provider-gate.ts. All addresses that it calls are the
// operator's setting, or what the provider there says of itself.
import { randomUUID } from "node:crypto";
import { betterAuth } from "better-auth";
import { getOAuthState } from "better-auth/api";
import { bearer } from "better-auth/plugins/bearer";
import { genericOAuth, type GenericOAuthConfig } from "better-auth/plugins/generic-oauth";
import type { By } from "#audit/record.ts";
import { oneLine } from "#lib/one-line.ts";
import { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { githubProfile } from "./github-profile.ts";
import type { ProviderSettings } from "./people-settings.ts";
import type { ProviderGate } from "./provider-gate.ts";

/** Who vouches for people. */
export type ProviderId = "oidc" | "github";

export type ProviderAuthOptions = {
  readonly database: Db;
  readonly secret: Secret;
  /** Where the platform is reached. */
  readonly baseUrl: string;
  readonly oidc: ProviderSettings | null;
  readonly github: ProviderSettings | null;
  readonly gate: ProviderGate;
};

/** Below it are the addresses that providers send browsers back to. */
const basePath = "/v2/auth";
const times = { createdAt: "created_at", updatedAt: "updated_at" };

/** Signs in with providers. Looks the one of OpenID Connect up when it is opened. */
export function openProviderAuth(options: ProviderAuthOptions) {
  const { database, secret, baseUrl, oidc, github, gate } = options;
  return betterAuth({
    appName: "Slipway",
    // Whole: to an address with a path it would add none.
    baseURL: baseUrl + basePath,
    basePath,
    // As a list, since it would otherwise look for one in the environment.
    secrets: [{ version: 1, value: secret.reveal() }],
    database: { db: database, type: "postgres" },
    telemetry: { enabled: false },
    rateLimit: { enabled: false },
    // Its messages name addresses of people; what matters of them is in our audit log.
    logger: { disabled: true },
    advanced: {
      cookiePrefix: "slipway",
      // A test compares the tables with what it expects.
      database: { generateId: () => randomUUID(), validateSchema: false },
      // The address of a request comes from our listener, not from fields that anybody may send.
      ipAddress: { disableIpTracking: true },
      // The provider sends the browser back from another site: a strict cookie would stay behind.
      cookies: { state: { attributes: { path: basePath, sameSite: "lax", httpOnly: true } } },
    },
    ...providerTables,
    // How long a session lasts, and what cookie it has, is ours to say.
    session: { ...providerTables.session, disableSessionRefresh: true },
    user: {
      ...providerTables.user,
      async validateUserInfo({ user, source: { action } }) {
        const visit = await getOAuthState<Visit>();
        if (visit !== null) visit.email = user.email;
        return gate.check(user, { action, isAsked: visit?.link !== undefined });
      },
    },
    databaseHooks: {
      account: {
        create: {
          async before(account) {
            const { email = null, by, sessionId = "" } = (await getOAuthState<Visit>()) ?? {};
            const providerId = account.providerId as ProviderId;
            const changes = { [providerId]: { old: "none", new: email } };
            const given = by && { changes, by, sessionId, providerId };
            if (given !== undefined && !(await gate.isConnecting(account.userId, given)))
              return false;
            return { data: { ...account, ...noTokens, email } };
          },
        },
        update: { before: async (account) => ({ data: { ...account, ...noTokens } }) },
      },
    },
    plugins: [
      genericOAuth({
        config: [
          ...(oidc === null ? [] : [oidcConfig(oidc)]),
          ...(github === null ? [] : [githubConfig(github)]),
        ],
      }),
      // Whose account is connected, it reads from a session's token.
      bearer(),
    ],
  });
}

/**
 * What is kept of a visit: who connects an account by it, and the account's address once the
 * provider has named it.
 */
type Visit = { readonly by?: By; readonly sessionId?: string; email?: string | null | undefined };

/** Under which names our tables have what it reads and writes. */
export const providerTables = {
  user: { modelName: "people", fields: { emailVerified: "email_verified", ...times } },
  account: {
    modelName: "person_accounts",
    updateAccountOnSignIn: false,
    // An account here is linked to one there of the same proven address; the gate sees to what was
    // not proven here.
    accountLinking: {
      enabled: true,
      requireLocalEmailVerified: false,
      // Of accounts that somebody connects while they are signed in.
      allowDifferentEmails: true,
    },
    additionalFields: { email: { type: "string", required: false } },
    fields: {
      userId: "person_id",
      providerId: "provider_id",
      accountId: "account_id",
      password: "password_hash",
      accessToken: "access_token",
      refreshToken: "refresh_token",
      idToken: "id_token",
      accessTokenExpiresAt: "access_token_expires_at",
      refreshTokenExpiresAt: "refresh_token_expires_at",
      ...times,
    },
  },
  session: {
    modelName: "person_sessions",
    fields: {
      userId: "person_id",
      ipAddress: "address",
      userAgent: "user_agent",
      expiresAt: "expires_at",
      ...times,
    },
  },
  verification: {
    modelName: "person_verifications",
    storeIdentifier: "hashed",
    // `peopleCleanup` does it.
    disableCleanup: true,
    fields: { expiresAt: "expires_at", ...times },
  },
} as const;

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
 * What is taken over of a profile. An address that nobody could be invited by is proven for nobody:
 * some of its letters may become plain ones as small letters (the Kelvin sign becomes a k), and so
 * it would become somebody else's.
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
