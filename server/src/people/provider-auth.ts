// Configures better-auth as the client of the providers that the operator has set up: OpenID
// Connect and GitHub. better-auth makes the visit to the provider (state, PKCE, nonce), exchanges
// the code and checks the ID token; provider-gate.ts decides who may sign in. Only URLs from the
// operator's settings are called, or from the documents that the provider publishes there.
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

/** A kind of provider. */
export type ProviderId = "oidc" | "github";

export type ProviderAuthOptions = {
  readonly database: Db;
  readonly secret: Secret;
  /** The platform's public URL. */
  readonly baseUrl: string;
  readonly oidc: ProviderSettings | null;
  readonly github: ProviderSettings | null;
  readonly gate: ProviderGate;
};

/** Providers send browsers back to URLs below this path. */
const basePath = "/v2/auth";
/** The columns of the two times that each of better-auth's tables has. */
const times = { createdAt: "created_at", updatedAt: "updated_at" };

/** Opens better-auth, which then fetches the configuration of the OpenID Connect provider. */
export function openProviderAuth(options: ProviderAuthOptions) {
  const { database, secret, baseUrl, oidc, github, gate } = options;
  return betterAuth({
    appName: "Slipway",
    // The path is included, since better-auth adds `basePath` only to a URL without a path.
    baseURL: baseUrl + basePath,
    basePath,
    // This is a list, since better-auth would otherwise look for a secret in the environment.
    secrets: [{ version: 1, value: secret.reveal() }],
    database: { db: database, type: "postgres" },
    telemetry: { enabled: false },
    rateLimit: { enabled: false },
    // The logger's messages contain addresses of people. Important events are in our audit log.
    logger: { disabled: true },
    advanced: {
      cookiePrefix: "slipway",
      // A test checks that our tables are as better-auth expects them.
      database: { generateId: () => randomUUID(), validateSchema: false },
      // The address of a request comes from our listener, not from headers that anybody can send.
      ipAddress: { disableIpTracking: true },
      // The browser comes back from the provider's site, so it would not send a strict cookie.
      cookies: { state: { attributes: { path: basePath, sameSite: "lax", httpOnly: true } } },
    },
    ...providerTables,
    // The lifetime of a session and its cookie are decided by sessions.ts, not by better-auth.
    session: { ...providerTables.session, disableSessionRefresh: true },
    user: {
      ...providerTables.user,
      async validateUserInfo({ user, source: { action } }) {
        const visit = await getOAuthState<Visit>();
        // The hook `account.create` below stores this address with the account.
        if (visit !== null) visit.email = user.email;
        // better-auth sets `link` for a visit that connects an account to a signed-in person.
        return gate.check(user, { action, isAsked: visit?.link !== undefined });
      },
    },
    databaseHooks: {
      account: {
        create: {
          async before(account) {
            const visit = await getOAuthState<Visit>();
            const { email = null, by, sessionId = "" } = visit ?? {};
            const providerId = account.providerId as ProviderId;
            const changes = { [providerId]: { old: "none", new: email } };
            // Only a visit that connects an account names the person who began it.
            if (by !== undefined) {
              const connection = { changes, by, sessionId, providerId };
              // `false` keeps better-auth from storing the account.
              if (!(await gate.isConnecting(account.userId, connection))) return false;
            }
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
      // Lets better-auth read from a session's token which person connects an account.
      bearer(),
    ],
  });
}

/**
 * The data that is stored with a visit that connects an account: the person, the session in which
 * the visit began, and the account's address once the provider has named it.
 */
type Visit = { readonly by?: By; readonly sessionId?: string; email?: string | null | undefined };

/** The names of the tables and columns that better-auth reads and writes. */
export const providerTables = {
  user: { modelName: "people", fields: { emailVerified: "email_verified", ...times } },
  account: {
    modelName: "person_accounts",
    updateAccountOnSignIn: false,
    // A provider's account is linked to the person with the same address if the provider has proven
    // it. The gate handles people whose address was not proven here.
    accountLinking: {
      enabled: true,
      requireLocalEmailVerified: false,
      // An account that a signed-in person connects may have another address.
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
    // `peopleCleanup` deletes old rows.
    disableCleanup: true,
    fields: { expiresAt: "expires_at", ...times },
  },
} as const;

export type ProviderAuth = ReturnType<typeof openProviderAuth>;

/** Clears the provider's tokens, since the platform never acts at a provider in a person's name. */
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
    // The URL is part of the subject: a provider that is set up later may use the same subjects for
    // other people.
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

/** Matches visible ASCII characters only, as in the addresses of invitations. */
const plainForm = /^[\x21-\x7e]+$/;

/**
 * What better-auth stores instead of the profile's own values: a checked name, and no image. An
 * address with other characters than ASCII never counts as proven: in lower case, some letters
 * become ASCII letters (the Kelvin sign becomes a k), and the address would become that of somebody
 * else.
 */
function userOf(profile: { readonly name?: unknown; readonly email?: unknown }) {
  const { name, email } = profile;
  const user = { name: nameOf(name, email), image: undefined };
  return plainForm.test(String(email)) ? user : { ...user, emailVerified: false };
}

const nameLengthMax = 100;

/** The provider's name for a person as one line, or the email address if there is no such name. */
function nameOf(profileName: unknown, email: unknown): string {
  const text = typeof profileName === "string" ? oneLine(profileName).trim() : "";
  const name = text === "" ? String(email) : text;
  return name.slice(0, nameLengthMax);
}
