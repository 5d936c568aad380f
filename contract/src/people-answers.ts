// The shapes of the answers about people and their sign-in.
import { z } from "zod";
import { roles } from "./words.ts";

const time = z.iso.datetime();

export const person = z.strictObject({
  id: z.uuid(),
  email: z.string(),
  name: z.string(),
  twoFactorEnabled: z.boolean(),
});

/** `refreshToken` gives further access tokens for as long as the session lasts. */
export const signedIn = z.strictObject({
  accessToken: z.string(),
  refreshToken: z.string(),
  /** Of the access token, in seconds. */
  expiresIn: z.int().min(1),
  person,
});

/** The password was right; a code is to be sent together with `challenge`. */
const twoFactorNeeded = z.strictObject({
  twoFactorRequired: z.literal(true),
  challenge: z.string(),
  expiresIn: z.int().min(1),
});

export const signInAnswer = z.union([signedIn, twoFactorNeeded]);

/** The names are those of OAuth 2.0. */
export const accessAnswer = z.strictObject({
  access_token: z.string(),
  token_type: z.literal("Bearer"),
  expires_in: z.int().min(1),
});

const session = z.strictObject({
  id: z.uuid(),
  /** Where it was signed in from. */
  address: z.string().nullable(),
  userAgent: z.string().nullable(),
  createdAt: time,
  /** To about an hour. */
  lastUsedAt: time,
  expiresAt: time,
  /** Whether the token of the request belongs to it. */
  isCurrent: z.boolean(),
});

export const me = z.strictObject({
  person,
  session,
  projects: z.array(z.strictObject({ id: z.string(), role: z.enum(roles) })),
});

export const sessionList = z.array(session);

/** A link that sets a password, for the operator to hand over; it works once. */
export const resetLink = z.strictObject({ url: z.string(), expiresAt: time });

/** What an authenticator app needs, and codes for the day when it is lost. Both are shown once. */
export const twoFactorEnrolment = z.strictObject({
  /** An otpauth URI; what follows `secret=` can be typed in, too. */
  uri: z.string(),
  backupCodes: z.array(z.string()),
});

export const backupCodes = z.strictObject({ backupCodes: z.array(z.string()) });

/** Providers that people can sign in with here. */
export const providerList = z.array(z.strictObject({ id: z.enum(["oidc", "github"]), name: z.string() }));

/** Where to send the browser. */
export const providerVisit = z.strictObject({ url: z.string() });
