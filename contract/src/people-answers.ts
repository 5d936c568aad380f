// The shapes of the answers about people and sign-in.
import { z } from "zod";
import { roles } from "./words.ts";

const time = z.iso.datetime();

export const person = z.strictObject({
  id: z.uuid(),
  email: z.string(),
  name: z.string(),
  twoFactorEnabled: z.boolean(),
});

/** `refreshToken` can be exchanged for access tokens as long as the session lasts. */
export const signedIn = z.strictObject({
  accessToken: z.string(),
  refreshToken: z.string(),
  /** Lifetime of the access token, in seconds. */
  expiresIn: z.int().min(1),
  person,
});

/** The password was correct; the client must send a code together with `challenge`. */
const twoFactorNeeded = z.strictObject({
  twoFactorRequired: z.literal(true),
  challenge: z.string(),
  expiresIn: z.int().min(1),
});

export const signInAnswer = z.union([signedIn, twoFactorNeeded]);

/** Names as in OAuth 2.0. */
export const accessAnswer = z.strictObject({
  access_token: z.string(),
  token_type: z.literal("Bearer"),
  expires_in: z.int().min(1),
});

const session = z.strictObject({
  id: z.uuid(),
  /** The address of the sign-in. */
  address: z.string().nullable(),
  userAgent: z.string().nullable(),
  createdAt: time,
  /** Accurate to about an hour. */
  lastUsedAt: time,
  expiresAt: time,
  /** Whether the request's token belongs to this session. */
  isCurrent: z.boolean(),
});

export const me = z.strictObject({
  person,
  session,
  projects: z.array(z.strictObject({ id: z.string(), role: z.enum(roles) })),
});

export const sessionList = z.array(session);

/** A single-use link to set a password, which the operator passes on. */
export const resetLink = z.strictObject({ url: z.string(), expiresAt: time });

/**
 * The setup data for an authenticator app, and backup codes in case it is lost. Both are shown
 * once.
 */
export const twoFactorEnrolment = z.strictObject({
  /** An otpauth URI; the value after `secret=` can also be typed in. */
  uri: z.string(),
  backupCodes: z.array(z.string()),
});

export const backupCodes = z.strictObject({ backupCodes: z.array(z.string()) });

/** The providers that people can sign in with. */
export const providerList = z.array(
  z.strictObject({ id: z.enum(["oidc", "github"]), name: z.string() }),
);

/** The ways in which a person can sign in. */
export const signInMethods = z.strictObject({
  hasPassword: z.boolean(),
  /** The providers that people can sign in with here. */
  providers: z.array(
    z.strictObject({
      id: z.enum(["oidc", "github"]),
      name: z.string(),
      /** Since when an account is connected; null: none is. */
      connectedAt: time.nullable(),
      /**
       * The address of the account at the provider when it was connected; null where that is not
       * known.
       */
      email: z.string().nullable(),
    }),
  ),
});

/** The URL to open in the browser. */
export const providerVisit = z.strictObject({ url: z.string() });
