// Sign-in, sign-out, access tokens, sessions.
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
      const done = await people.signIn.withPassword({
        email: String(body["email"]),
        password,
        ...trierOf(call, api),
      });
      return answerSignIn(call, done, api);
    },
    async issueAccessToken(call) {
      const body = bodyOf(call);
      const sent = refreshTokenOf(call, body["refresh_token"], api);
      const found = await people.sessions.of(sent.value);
      if (found === null) throw sessionEnded();
      const { accessToken, expiresIn } = await people.sessions.issueAccess(found.session.id);
      // The session continues, and so does its cookie.
      if (sent.isCookie)
        setCookies(call, { refreshToken: new Secret(sent.value), person: found.person }, api);
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

/** The answer to a sign-in; sets the cookie. */
function answerSignIn(
  call: ApiCall,
  done: SignedIn | Challenge,
  api: HandlerParts,
): z.infer<typeof signInAnswer> {
  if (done.kind === "signed_in") return answerSignedIn(call, done, api);
  return { twoFactorRequired: true, challenge: done.challenge.reveal(), expiresIn: done.expiresIn };
}

/** Like `answerSignIn`, for sign-ins without a second step. */
export function answerSignedIn(
  call: ApiCall,
  done: SignedIn,
  api: HandlerParts,
): z.infer<typeof signedIn> {
  setCookies(call, done, api);
  return {
    accessToken: done.accessToken.reveal(),
    refreshToken: done.refreshToken.reveal(),
    expiresIn: done.expiresIn,
    person: showPerson(done.person),
  };
}

/** Sets the cookies of a sign-in: the session, and the device that the person signed in with. */
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

/** The source of a sign-in attempt. */
export function trierOf(call: ApiCall, { urls }: HandlerParts): Trier {
  return { device: deviceCookie(call.request, urls().baseUrl), by: call.by };
}

/**
 * The refresh token in the body, else in the cookie, which only pages of the platform may use;
 * empty when there is none.
 */
function refreshTokenOf(
  call: ApiCall,
  given: unknown,
  { urls }: HandlerParts,
): { value: string; isCookie: boolean } {
  if (typeof given === "string") return { value: given, isCookie: false };
  const { baseUrl } = urls();
  // Even without the cookie: the answer may delete it.
  requireOwnPage(call.request, baseUrl);
  const value = sessionCookie(call.request, baseUrl);
  return { value: value ?? "", isCookie: value !== null };
}

function showPerson({ id, email, name, two_factor_enabled }: PersonRow): z.infer<typeof person> {
  return { id, email, name, twoFactorEnabled: two_factor_enabled };
}

function showSession(row: SessionRow, caller: PersonCaller): z.infer<typeof me>["session"] {
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
