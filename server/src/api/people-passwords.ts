// Route handlers for the passwords and second factors of people.
import { Secret } from "#lib/secret.ts";
import { bodyOf, type ApiCall, type Handlers } from "./call.ts";
import { answerSignedIn, personCallerOf, trierOf } from "./people-auth.ts";
import { requireOwnPage } from "./session-cookie.ts";
import type { HandlerParts } from "./parts.ts";

/**
 * The answer to every request for a link to set a new password. It is the same whether the address
 * is known or not, so that it does not tell who has an account.
 */
const linkRequestedText =
  "If there is an account with this address, a link is on its way to it. The link works once, within an hour.";

/** Route handlers for passwords. */
export function passwordHandlers(api: HandlerParts) {
  const { people, urls } = api;
  return {
    async signUp(call) {
      requireOwnPage(call.request, urls().baseUrl);
      const body = bodyOf(call);
      people.signUp.ask({ email: String(body["email"]), name: String(body["name"]), by: call.by });
      return { message: "A link is on its way to the address. It works once, within an hour." };
    },
    async changePassword(call) {
      const body = bodyOf(call);
      const current = new Secret(String(body["currentPassword"]));
      const next = new Secret(String(body["newPassword"]));
      await people.passwords.change(personCallerOf(call), { current, next, by: call.by });
      return { message: "The password was changed, and your other sessions have ended." };
    },
    async forgotPassword(call) {
      requireOwnPage(call.request, urls().baseUrl);
      const body = bodyOf(call);
      people.passwords.forgot(String(body["email"]), call.by);
      return { message: linkRequestedText };
    },
    async resetPassword(call) {
      requireOwnPage(call.request, urls().baseUrl);
      const body = bodyOf(call);
      const next = new Secret(String(body["password"]));
      await people.passwords.reset({ secret: String(body["token"]), next, ...trierOf(call, api) });
      return {
        message:
          "The password was set, and all sessions have ended; sign in with the new password.",
      };
    },
    async createPasswordReset(call) {
      const body = bodyOf(call);
      const { url, expiresAt } = await people.passwords.makeLink(String(body["email"]), call.by);
      return { url: url.reveal(), expiresAt: expiresAt.toISOString() };
    },
  } satisfies Handlers;
}

/** Route handlers for second factors. */
export function twoFactorHandlers(api: HandlerParts) {
  const { people, urls } = api;
  const proofOf = (call: ApiCall): { code: string; password: Secret | null } => {
    const body = bodyOf(call);
    return { code: String(body["code"]), password: secretOf(body["password"]) };
  };
  return {
    async signInTwoFactor(call) {
      requireOwnPage(call.request, urls().baseUrl);
      const body = bodyOf(call);
      const attempt = {
        challenge: String(body["challenge"]),
        code: String(body["code"]),
        ...trierOf(call, api),
      };
      return answerSignedIn(call, await people.twoFactor.signIn(attempt), api);
    },
    async beginTwoFactor(call) {
      const body = bodyOf(call);
      return people.twoFactor.begin(personCallerOf(call), secretOf(body["password"]));
    },
    async confirmTwoFactor(call) {
      const body = bodyOf(call);
      const signedIn = await people.twoFactor.confirm(
        personCallerOf(call),
        String(body["code"]),
        call.by,
      );
      return answerSignedIn(call, signedIn, api);
    },
    async disableTwoFactor(call) {
      const signedIn = await people.twoFactor.disable(personCallerOf(call), {
        ...proofOf(call),
        by: call.by,
      });
      return answerSignedIn(call, signedIn, api);
    },
    async createTwoFactorReset(call) {
      const body = bodyOf(call);
      await people.twoFactor.reset(String(body["email"]), call.by);
      return { message: "Two-factor sign-in is off, and all sessions of the person have ended." };
    },
    async renewBackupCodes(call) {
      return {
        backupCodes: await people.twoFactor.renewBackupCodes(personCallerOf(call), {
          ...proofOf(call),
          by: call.by,
        }),
      };
    },
  } satisfies Handlers;
}

/** The value of a body's field as a secret; null: the body does not have the field. */
export function secretOf(value: unknown): Secret | null {
  return typeof value === "string" ? new Secret(value) : null;
}
