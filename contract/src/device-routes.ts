// Routes of device login (RFC 8628): a command line signs in a person who approves it in a browser.
// The first two have the paths and shapes that existing clients use.
import { z } from "zod";
import type { Field } from "./field.ts";
import type { Route } from "./route.ts";

/** The answer that starts a device login. */
export const deviceAuthorization = z.strictObject({
  deviceAuthResponsePayload: z.strictObject({
    device_code: z.string(),
    user_code: z.string(),
    verification_uri: z.url(),
    verification_uri_complete: z.url(),
    /** The lifetime of the codes, in seconds. */
    expires_in: z.int().min(1),
    /** Seconds between two polls. */
    interval: z.int().min(1),
  }),
});

const deviceTokens = z.strictObject({ accessToken: z.string(), refreshToken: z.string() });

/** `error`: as in RFC 8628; absent when the request itself is invalid. */
const deviceRefusal = z.strictObject({
  error: z
    .enum(["authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant"])
    .optional(),
  message: z.string().min(1),
});

/** What the approving person sees. */
export const deviceLogin = z.strictObject({
  userCode: z.string(),
  /** The User-Agent of the device, which it chooses itself. */
  client: z.string(),
  address: z.string().nullable(),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
  state: z.enum(["waiting", "approved", "denied"]),
});

/** The body of `POST /token`. */
export const deviceTokenFields = {
  device_code: {
    kind: "text",
    toml: null,
    form: /^[\x21-\x7e]{1,200}$/,
    allowed: "the device_code of a device authorization",
    default: null,
    isSecret: true,
    about: "The device_code from the start of the device login.",
  },
} as const satisfies Record<string, Field>;

/** The body of a decision. */
const deviceDecisionFields = {
  decision: {
    kind: "choice",
    toml: null,
    choices: ["approve", "deny"],
    default: null,
    about: "approve: the device is signed in as you; deny: it is not.",
  },
} as const satisfies Record<string, Field>;

const deviceLoginPath = "/v2/auth/device-logins/{user_code}";

/** By operation id; part of the table in `routes.ts`. */
export const deviceRoutes = {
  beginDeviceLogin: {
    method: "POST",
    path: "/device-authorization",
    about:
      "Starts a device login (RFC 8628): a person opens `verification_uri_complete`, compares `user_code` and approves. The body is `{}` or empty.",
    access: "public",
    audit: null,
    status: 200,
    answer: deviceAuthorization,
  },
  endDeviceLogin: {
    method: "POST",
    path: "/token",
    about:
      "The tokens of a device login that was approved, once. Until then 400 with an `error` of RFC 8628: `authorization_pending`, `slow_down`, `access_denied`, `expired_token`, `invalid_grant`.",
    access: "public",
    audit: "person.sign_in",
    body: { kind: "fields", fields: deviceTokenFields, required: ["device_code"] },
    status: 200,
    answer: deviceTokens,
    refusals: { 400: deviceRefusal },
  },
  getDeviceLogin: {
    method: "GET",
    path: deviceLoginPath,
    about: "The device that asks to be signed in as the caller, by its user code.",
    access: "person",
    audit: null,
    status: 200,
    answer: deviceLogin,
  },
  decideDeviceLogin: {
    method: "POST",
    path: deviceLoginPath,
    about: "Approves or denies the device that shows this code. Works once.",
    access: "person",
    audit: "person.device_approve",
    body: { kind: "fields", fields: deviceDecisionFields, required: ["decision"] },
    status: 200,
    answer: deviceLogin,
  },
} as const satisfies Record<string, Route>;
