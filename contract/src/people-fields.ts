// Bodies of the routes for people and sign-in, as rows like those of `parameters.ts`.
import type { Field } from "./field.ts";
import { shownName } from "./name-field.ts";

/** An email address. ASCII only, so that two addresses that look alike are the same. */
export const emailField = {
  kind: "text",
  toml: null,
  form: /^[\x21-\x3f\x41-\x7e]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?$/,
  allowed: "an email address",
  default: null,
  about: "The email address; case-insensitive.",
} as const satisfies Field;

const secretText = (about: string, max = 1_000) =>
  ({
    kind: "text",
    toml: null,
    form: new RegExp(`^[^\\0]{1,${max}}$`),
    allowed: `1 to ${max} characters`,
    default: null,
    isSecret: true,
    about,
  }) as const satisfies Field;

/** The display name of a person. */
export const personNameField = shownName(100, "The name that other people see.");

/** A new password. */
const newPasswordField = secretText("The new password: at least 10 characters.");

/** The body of `POST /v2/auth/sign-in`. */
export const signInFields = {
  email: emailField,
  password: secretText("The password."),
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/sign-in/two-factor`. */
export const twoFactorSignInFields = {
  challenge: secretText("The challenge that the first step answered with.", 200),
  code: secretText(
    "The code that the authenticator app shows now, or one of the backup codes.",
    40,
  ),
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/token`, as JSON or as a form. */
export const tokenFields = {
  grant_type: {
    kind: "choice",
    toml: null,
    choices: ["refresh_token"],
    default: "refresh_token",
    about: "The credential that is exchanged for an access token.",
  },
  refresh_token: {
    ...secretText("The refresh token of a sign-in.", 500),
    defaultAbout: "the session's cookie",
  },
  client_id: {
    kind: "text",
    toml: null,
    form: /^[^\0]{0,200}$/,
    allowed: "at most 200 characters",
    default: null,
    about: "Ignored; OAuth 2.0 clients send it.",
  },
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/sign-out`. */
export const signOutFields = { refresh_token: tokenFields.refresh_token } as const satisfies Record<
  string,
  Field
>;

/** The body of `POST /v2/auth/password`. */
export const passwordFields = {
  currentPassword: secretText("The current password."),
  newPassword: newPasswordField,
} as const satisfies Record<string, Field>;

/**
 * The body of `POST /v2/auth/password/forgot`, `POST /v2/operator/password-resets` and `POST
 * /v2/operator/two-factor-resets`.
 */
export const emailFields = { email: emailField } as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/password/reset`. */
export const resetFields = {
  token: secretText("The last part of the link.", 200),
  password: newPasswordField,
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/sign-up`. */
export const signUpFields = { email: emailField, name: personNameField } as const satisfies Record<
  string,
  Field
>;

const ownPassword = {
  ...secretText("The password."),
  defaultAbout: "none: for people who sign in with a provider and have no password",
} as const;
const ownCode = secretText(
  "The code that the authenticator app shows now, or one of the backup codes.",
  40,
);

/** The body of `POST /v2/auth/two-factor`. */
export const twoFactorFields = { password: ownPassword } as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/two-factor/confirm`. */
export const twoFactorConfirmFields = {
  code: secretText("The code that the authenticator app shows now.", 40),
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/two-factor/disable` and `POST /v2/auth/two-factor/backup-codes`. */
export const twoFactorChangeFields = {
  password: ownPassword,
  code: ownCode,
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/auth/sign-in/provider`. */
export const providerFields = {
  provider: {
    kind: "choice",
    toml: null,
    choices: ["oidc", "github"],
    default: null,
    about: "The identity provider.",
  },
  returnTo: {
    kind: "text",
    toml: null,
    form: /^\/dashboard[^\x00-\x20\x7f\\]{0,490}$/,
    allowed: "a path of the dashboard, such as /dashboard/device",
    default: null,
    defaultAbout: "/dashboard",
    about: "The page to return to.",
  },
} as const satisfies Record<string, Field>;

/**
 * The body of `POST /v2/auth/sign-in-methods/connect` and `POST
 * /v2/auth/sign-in-methods/disconnect`.
 */
export const signInMethodFields = {
  provider: providerFields.provider,
  password: ownPassword,
} as const satisfies Record<string, Field>;
