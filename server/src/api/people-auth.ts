// Route handlers for sign-in, sign-out, access tokens and sessions.
import type { z } from "zod";
import type { me, person, signedIn, signInAnswer } from "@slipway/contract/people-answers.ts";
import type { PersonRow } from "#accounts/account-store.ts";
import type { PersonCaller } from "#accounts/caller.ts";
import { Fault } from "#lib/fault.ts";
import { Secret } from "#lib/secret.ts";
import type { Trier } from "#people/device-cookies.ts";
import type { Challenge } from "#people/challenges.ts";
import type { SessionRow } from "#people/people-store.ts";
import { sessionEnded, type SignedIn } from "#people/sessions.ts";
import { bodyOf, idOf, type ApiCall, type Handlers } from "./call.ts";
import {
  clearSessionCookie,
  deviceCookie,
  requireOwnPage,
  sessionCookie,
  setDeviceCookie,
  setSessionCookie,
} from "./session-cookie.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for sign-in and sessions. */
export function peopleHandlers(api: HandlerParts) {
  const { people, urls } = api;
  return {
    async signIn(call) {
      requireOwnPage(call.request, urls().baseUrl);
      const body = bodyOf(call);
      const password = new Secret(String(body["password"]));
      const signInResult = await people.signIn.withPassword({
        email: String(body["email"]),
        password,
        ...trierOf(call, api),
      });
      return answerSignIn(call, signInResult, api);
    },
    async issueAccessToken(call) {
      const body = bodyOf(call);
      const refreshToken = refreshTokenOf(call, body["refresh_token"], api);
      const found = await people.sessions.of(refreshToken.value);
      if (found === null) throw sessionEnded();
      const { person, session } = found;
      const { accessToken, expiresIn } = await people.sessions.issueAccess(session.id);
      // This use prolongs the session. A new cookie with the same value lasts as long as the
      // session does.
      if (refreshToken.isCookie)
        setCookies(call, { refreshToken: new Secret(refreshToken.value), person }, api);
      return { access_token: accessToken.reveal(), token_type: "Bearer", expires_in: expiresIn };
    },
    async signOut(call) {
      const body = bodyOf(call);
      const found = await people.sessions.of(
        refreshTokenOf(call, body["refresh_token"], api).value,
      );
      if (found !== null) await people.sessions.signOut(found, call.by);
      clearSessionCookie(call.reply, urls().baseUrl);
      return { message: "You are signed out." };
    },
    async getSession(call) {
      const caller = personCallerOf(call);
      const row = await people.personById(caller.personId);
      const sessions = await people.sessions.list(caller.personId);
      const session = sessions.find(({ id }) => id === caller.sessionId);
      if (row === undefined || session === undefined) throw sessionEnded();
      const projects = [...caller.roles].map(([id, role]) => ({ id, role }));
      return {
        person: showPerson(row),
        session: showSession(session, caller),
        projects,
      } satisfies z.infer<typeof me>;
    },
    async listSessions(call) {
      const caller = personCallerOf(call);
      return (await people.sessions.list(caller.personId)).map((session) =>
        showSession(session, caller),
      );
    },
    async endSession(call) {
      const id = idOf(call, "session_id", "You have no session with that id.");
      await people.sessions.endOne(personCallerOf(call).personId, id, call.by);
      return { message: "The session has ended." };
    },
    async endOtherSessions(call) {
      const { personId, sessionId } = personCallerOf(call);
      await people.sessions.endAllOthers(personId, sessionId, call.by);
      return { message: "All other sessions have ended." };
    },
  } satisfies Handlers;
}

/** The calling person; the route accepts no other callers. */
export function personCallerOf(call: ApiCall): PersonCaller {
  if (call.caller?.kind === "person") return call.caller;
  throw new Fault("forbidden", "Only a person who is signed in can use this.");
}

/** Answers the first step of a sign-in: with tokens, or with a challenge for the second step. */
function answerSignIn(
  call: ApiCall,
  result: SignedIn | Challenge,
  api: HandlerParts,
): z.infer<typeof signInAnswer> {
  if (result.kind === "signed_in") return answerSignedIn(call, result, api);
  const { challenge, expiresIn } = result;
  return { twoFactorRequired: true, challenge: challenge.reveal(), expiresIn };
}

/** Answers a completed sign-in with the tokens, and sets the cookies. */
export function answerSignedIn(
  call: ApiCall,
  signIn: SignedIn,
  api: HandlerParts,
): z.infer<typeof signedIn> {
  setCookies(call, signIn, api);
  return {
    accessToken: signIn.accessToken.reveal(),
    refreshToken: signIn.refreshToken.reveal(),
    expiresIn: signIn.expiresIn,
    person: showPerson(signIn.person),
  };
}

/** Sets the cookies of a sign-in: one for the session, one for the browser. */
export function setCookies(
  call: ApiCall,
  { refreshToken, person: { id } }: Pick<SignedIn, "refreshToken" | "person">,
  { people, urls }: HandlerParts,
): void {
  const { baseUrl } = urls();
  setSessionCookie(call.reply, refreshToken, baseUrl);
  const device = people.deviceCookies.valueFor(id, deviceCookie(call.request, baseUrl));
  setDeviceCookie(call.reply, device, baseUrl);
}

/** Who attempts to sign in: the device cookie of the browser, and the actor with its address. */
export function trierOf(call: ApiCall, { urls }: HandlerParts): Trier {
  return { device: deviceCookie(call.request, urls().baseUrl), by: call.by };
}

/**
 * The refresh token in the body or, if there is none, in the cookie, which only pages of the
 * platform may use. The value is empty when neither has a token.
 */
function refreshTokenOf(
  call: ApiCall,
  tokenOfBody: unknown,
  { urls }: HandlerParts,
): { value: string; isCookie: boolean } {
  if (typeof tokenOfBody === "string") return { value: tokenOfBody, isCookie: false };
  const { baseUrl } = urls();
  // Other sites are refused even when the request has no cookie, since the answer to a sign-out
  // deletes the browser's cookie.
  requireOwnPage(call.request, baseUrl);
  const value = sessionCookie(call.request, baseUrl);
  return { value: value ?? "", isCookie: value !== null };
}

function showPerson({ id, email, name, two_factor_enabled }: PersonRow): z.infer<typeof person> {
  return { id, email, name, twoFactorEnabled: two_factor_enabled };
}

function showSession(row: SessionRow, caller: PersonCaller): z.infer<typeof me>["session"] {
  // An empty text in the row means that the value is not known.
  return {
    id: row.id,
    address: row.address === "" ? null : row.address,
    userAgent: row.user_agent === "" ? null : row.user_agent,
    createdAt: row.created_at.toISOString(),
    lastUsedAt: row.updated_at.toISOString(),
    expiresAt: row.expires_at.toISOString(),
    isCurrent: row.id === caller.sessionId,
  };
}
