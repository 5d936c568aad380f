// Routes of passwords and second factors of people.
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
    about: "The second step of a sign-in: a code for its challenge. Answers as the first step does without one.",
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
      "Where anybody may become a person: mails a link that sets a password. Answers alike when the address is known.",
    access: "public",
    audit: "person.password_reset",
    body: { kind: "fields", fields: signUpFields, required: ["email", "name"] },
    status: 200,
    answer: messageAnswer,
  },
  changePassword: {
    method: "POST",
    path: `${auth}/password`,
    about: "Changes the person's password, and ends all of their sessions but this one.",
    access: "person",
    audit: "person.password_change",
    body: { kind: "fields", fields: passwordFields, required: ["currentPassword", "newPassword"] },
    status: 200,
    answer: messageAnswer,
  },
  forgotPassword: {
    method: "POST",
    path: `${auth}/password/forgot`,
    about: "Mails a link that sets a new password. Answers alike when nobody has the address.",
    access: "public",
    audit: "person.password_reset",
    body: { kind: "fields", fields: emailFields, required: ["email"] },
    status: 200,
    answer: messageAnswer,
  },
  resetPassword: {
    method: "POST",
    path: `${auth}/password/reset`,
    about: "Sets a new password by the secret of a link, which works once, and ends all sessions of the person.",
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
      "Makes a link that sets a new password, to be handed to the person: where no mail can be sent. Operators only.",
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
      "Begins to turn two-factor sign-in on: answers with what an authenticator app needs. It is on once a code was confirmed.",
    access: "person",
    audit: null,
    body: { kind: "fields", fields: twoFactorFields, required: [] },
    status: 200,
    answer: twoFactorEnrolment,
  },
  confirmTwoFactor: {
    method: "POST",
    path: `${auth}/two-factor/confirm`,
    about: "Turns two-factor sign-in on, with a code of the app. The session is replaced by a new one, as answered.",
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
      "Turns two-factor sign-in off, with a code and the password. The session is replaced by a new one, as answered.",
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
      "Turns a person's two-factor sign-in off and ends their sessions: for somebody who has lost app and backup codes, and whom the operator knows. Operators only.",
    access: "platform.manage",
    audit: "person.two_factor_disable",
    body: { kind: "fields", fields: emailFields, required: ["email"] },
    status: 200,
    answer: messageAnswer,
  },
  renewBackupCodes: {
    method: "POST",
    path: `${auth}/two-factor/backup-codes`,
    about: "Makes new backup codes, shown once; all before are good no more.",
    access: "person",
    audit: "person.two_factor_enable",
    body: { kind: "fields", fields: twoFactorChangeFields, required: ["code"] },
    status: 200,
    answer: backupCodes,
  },
} as const satisfies Record<string, Route>;
