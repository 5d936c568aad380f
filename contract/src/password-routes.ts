// Routes for people's passwords and second factors.
import { messageAnswer } from "./answers.ts";
import { backupCodes, resetLink, signedIn, twoFactorEnrolment } from "./people-answers.ts";
import {
  emailFields,
  passwordFields,
  resetFields,
  signUpFields,
  twoFactorChangeFields,
  twoFactorConfirmFields,
  twoFactorFields,
  twoFactorSignInFields,
} from "./people-fields.ts";
import type { Route } from "./route.ts";

const auth = "/v2/auth";

/** By operation id; part of the table in `routes.ts`. */
export const passwordRoutes = {
  signInTwoFactor: {
    method: "POST",
    path: `${auth}/sign-in/two-factor`,
    about:
      "The second step of a sign-in: a code for its challenge. The response is that of a sign-in without a second step.",
    access: "public",
    audit: "person.sign_in",
    body: { kind: "fields", fields: twoFactorSignInFields, required: ["challenge", "code"] },
    status: 200,
    answer: signedIn,
  },
  signUp: {
    method: "POST",
    path: `${auth}/sign-up`,
    about:
      "Where sign-up is open: mails a link to set a password. The response is the same if the address is already known.",
    access: "public",
    audit: "person.password_reset",
    body: { kind: "fields", fields: signUpFields, required: ["email", "name"] },
    status: 200,
    answer: messageAnswer,
  },
  changePassword: {
    method: "POST",
    path: `${auth}/password`,
    about: "Changes the person's password, and ends all of their sessions except this one.",
    access: "person",
    audit: "person.password_change",
    body: { kind: "fields", fields: passwordFields, required: ["currentPassword", "newPassword"] },
    status: 200,
    answer: messageAnswer,
  },
  forgotPassword: {
    method: "POST",
    path: `${auth}/password/forgot`,
    about:
      "Mails a link to set a new password. The response is the same if there is no account with the address.",
    access: "public",
    audit: "person.password_reset",
    body: { kind: "fields", fields: emailFields, required: ["email"] },
    status: 200,
    answer: messageAnswer,
  },
  resetPassword: {
    method: "POST",
    path: `${auth}/password/reset`,
    about:
      "Sets a new password with the secret from a link, which works once, and ends all sessions of the person.",
    access: "public",
    audit: "person.password_reset",
    body: { kind: "fields", fields: resetFields, required: ["token", "password"] },
    status: 200,
    answer: messageAnswer,
  },
  createPasswordReset: {
    method: "POST",
    path: "/v2/operator/password-resets",
    about:
      "Creates a link to set a new password, to pass on to the person if no mail can be sent. Operators only.",
    access: "platform.manage",
    audit: "person.password_reset",
    body: { kind: "fields", fields: emailFields, required: ["email"] },
    status: 201,
    answer: resetLink,
  },
  beginTwoFactor: {
    method: "POST",
    path: `${auth}/two-factor`,
    about:
      "Starts to turn on two-factor sign-in: the response has what an authenticator app needs. It is on once a code is confirmed.",
    access: "person",
    audit: null,
    body: { kind: "fields", fields: twoFactorFields, required: [] },
    status: 200,
    answer: twoFactorEnrolment,
  },
  confirmTwoFactor: {
    method: "POST",
    path: `${auth}/two-factor/confirm`,
    about:
      "Turns on two-factor sign-in with a code from the app. The session is replaced by the new one in the response.",
    access: "person",
    audit: "person.two_factor_enable",
    body: { kind: "fields", fields: twoFactorConfirmFields, required: ["code"] },
    status: 200,
    answer: signedIn,
  },
  disableTwoFactor: {
    method: "POST",
    path: `${auth}/two-factor/disable`,
    about:
      "Turns off two-factor sign-in with a code and the password. The session is replaced by the new one in the response.",
    access: "person",
    audit: "person.two_factor_disable",
    body: { kind: "fields", fields: twoFactorChangeFields, required: ["code"] },
    status: 200,
    answer: signedIn,
  },
  createTwoFactorReset: {
    method: "POST",
    path: "/v2/operator/two-factor-resets",
    about:
      "Turns off a person's two-factor sign-in and ends their sessions: for people known to the operator who have lost their app and backup codes. Operators only.",
    access: "platform.manage",
    audit: "person.two_factor_disable",
    body: { kind: "fields", fields: emailFields, required: ["email"] },
    status: 200,
    answer: messageAnswer,
  },
  renewBackupCodes: {
    method: "POST",
    path: `${auth}/two-factor/backup-codes`,
    about: "Creates new backup codes, shown once; the old ones no longer work.",
    access: "person",
    audit: "person.two_factor_enable",
    body: { kind: "fields", fields: twoFactorChangeFields, required: ["code"] },
    status: 200,
    answer: backupCodes,
  },
} as const satisfies Record<string, Route>;
