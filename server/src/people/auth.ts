// better-auth as Slipway sets it up: our tables, our ids, our passwords; nothing is sent anywhere, nothing is limited or
// logged by it. Nobody reaches its own HTTP routes: parts of this area call it, and answer in words of ours.
import { randomUUID } from "node:crypto";
import { betterAuth } from "better-auth";
import { twoFactor } from "better-auth/plugins/two-factor";
import { hashPassword, isPassword } from "#accounts/passwords.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";

/** Where its own routes would be; the addresses that providers send browsers back to begin with it. */
const basePath = "/v2/auth";
/** How long a session goes on after it was last used, in seconds. */
export const sessionSeconds = 30 * 24 * 3600;
/** How long the second step of a sign-in may take, in seconds. */
export const challengeSeconds = 600;
/** Wrong codes in a row, over all sign-ins of a person, before codes are refused for `lockSeconds`. */
const wrongCodesMax = 10;
/** See `wrongCodesMax`. */
export const lockSeconds = 900;

export type AuthOptions = {
  /** See scoped-database.ts. */
  readonly database: Db;
  readonly secret: Secret;
  /** Where the platform is reached. */
  readonly baseUrl: string;
};

/** What every instance of better-auth here has in common. */
export function authSettings({ database, secret, baseUrl }: AuthOptions) {
  return {
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
      // A test compares the tables with what it expects; here it would do so within a transaction, and fail.
      database: { generateId: () => randomUUID(), validateSchema: false },
      // The address of a request comes from our listener, not from fields that anybody may send.
      ipAddress: { disableIpTracking: true },
    },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: 1,
      maxPasswordLength: 1_000,
      revokeSessionsOnPasswordReset: true,
      password: { hash: hashPassword, verify: ({ hash, password }) => isPassword(password, hash) },
    },
    user: {
      modelName: "people",
      fields: { emailVerified: "email_verified", createdAt: "created_at", updatedAt: "updated_at" },
    },
    account: {
      modelName: "person_accounts",
      updateAccountOnSignIn: false,
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
        createdAt: "created_at",
        updatedAt: "updated_at",
      },
    },
    session: {
      modelName: "person_sessions",
      expiresIn: sessionSeconds,
      fields: {
        userId: "person_id",
        ipAddress: "address",
        userAgent: "user_agent",
        expiresAt: "expires_at",
        createdAt: "created_at",
        updatedAt: "updated_at",
      },
    },
    verification: {
      modelName: "person_verifications",
      storeIdentifier: "hashed",
      // cleanup.ts does it.
      disableCleanup: true,
      fields: { expiresAt: "expires_at", createdAt: "created_at", updatedAt: "updated_at" },
    },
  } as const satisfies Parameters<typeof betterAuth>[0];
}

/** Second factors. */
export const twoFactorSettings = {
  plugins: [
    twoFactor({
      issuer: "Slipway",
      // Whoever signs in with a provider has no password to be asked for.
      allowPasswordless: true,
      twoFactorCookieMaxAge: challengeSeconds,
      accountLockout: { enabled: true, maxFailedAttempts: wrongCodesMax, durationSeconds: lockSeconds },
      schema: {
        user: { fields: { twoFactorEnabled: "two_factor_enabled" } },
        twoFactor: {
          modelName: "person_two_factors",
          fields: {
            userId: "person_id",
            backupCodes: "backup_codes",
            failedVerificationCount: "failed_verification_count",
            lockedUntil: "locked_until",
          },
        },
      },
    }),
  ],
};

/** The instance that signs in by password and second factor. */
export function openAuth(options: AuthOptions) {
  return betterAuth({ ...authSettings(options), ...twoFactorSettings });
}

export type Auth = ReturnType<typeof openAuth>;
