// The session cookie, which pages of the platform exchange for access tokens. It is sent only to
// routes below /v2/auth, no script can read it, and no other site can make the browser send it. The
// device cookie (see people/device-cookies.ts) is separate, and stays after a sign-out.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const path = "/v2/auth";
/** The session cookie lasts as long as a session lasts without use. */
const maxAgeSeconds = 30 * 24 * 3600;
/** The device cookie has the longest lifetime that browsers allow. */
const deviceMaxAgeSeconds = 400 * 24 * 3600;

/**
 * A cookie to set. Browsers do not send a `Strict` cookie with a request that comes from another
 * site, such as the return from a provider. That return needs the device cookie, which is `Lax`.
 */
type Cookie = {
  readonly name: "session" | "device";
  readonly value: string;
  /** In seconds; 0 deletes the cookie. */
  readonly maxAge: number;
  readonly sameSite: "Strict" | "Lax";
};

/** Sets the session cookie. `baseUrl` decides whether plain HTTP is allowed. */
export function setSessionCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  const sessionFields = { name: "session", sameSite: "Strict" } as const;
  void reply.header(
    "set-cookie",
    headerValue({ ...sessionFields, value: value.reveal(), maxAge: maxAgeSeconds }, baseUrl),
  );
}

/** Sets the device cookie. */
export function setDeviceCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  const deviceFields = { name: "device", sameSite: "Lax" } as const;
  void reply.header(
    "set-cookie",
    headerValue({ ...deviceFields, value: value.reveal(), maxAge: deviceMaxAgeSeconds }, baseUrl),
  );
}

/** Makes the browser delete the session cookie. */
export function clearSessionCookie(reply: FastifyReply, baseUrl: string): void {
  const expired = { name: "session", value: "", maxAge: 0, sameSite: "Strict" } as const;
  void reply.header("set-cookie", headerValue(expired, baseUrl));
}

/** The value of the session cookie; null: the request has none. */
export function sessionCookie(request: FastifyRequest, baseUrl: string): string | null {
  return valueOf(request, nameOf("session", baseUrl));
}

/** The value of the device cookie; null: the request has none. */
export function deviceCookie(request: FastifyRequest, baseUrl: string): string | null {
  return valueOf(request, nameOf("device", baseUrl));
}

function valueOf(request: FastifyRequest, name: string): string | null {
  for (const part of (request.headers.cookie ?? "").split(";")) {
    // The values consist of ids and base64url, so they have no `=` of their own.
    const [key, value] = part.trim().split("=", 2);
    if (key === name && value !== undefined && value !== "") return value;
  }
  return null;
}

/**
 * Throws `Fault("forbidden")` for a request that a page of another site triggered. Requests of
 * programs, which have no origin, are accepted.
 */
export function requireOwnPage(request: FastifyRequest, baseUrl: string): void {
  const { "sec-fetch-site": site, origin, host } = request.headers;
  // Browsers send `none` when a person, and no page, opened the address. Older browsers send only
  // the origin.
  const isOwnPage =
    site === undefined
      ? isOwnOrigin(origin, host, baseUrl)
      : site === "same-origin" || site === "none";
  if (isOwnPage) return;
  throw new Fault("forbidden", "Pages of other sites cannot sign people in or out.");
}

function isOwnOrigin(
  origin: string | undefined,
  host: string | undefined,
  baseUrl: string,
): boolean {
  if (origin === undefined) return true;
  // A page of the platform has its public origin, or the origin that this request is sent to.
  if (origin === new URL(baseUrl).origin) return true;
  return host !== undefined && URL.parse(origin)?.host === host.toLowerCase();
}

/** The value of the header `Set-Cookie`. */
function headerValue({ name, value, maxAge, sameSite }: Cookie, baseUrl: string): string {
  const secure = isSecure(baseUrl) ? "; Secure" : "";
  // The priority makes a browser with too many cookies of this site evict cookies of apps first;
  // see proxy/cookies.ts.
  return `${nameOf(name, baseUrl)}=${value}; Path=${path}; Max-Age=${maxAge}; HttpOnly; SameSite=${sameSite}; Priority=High${secure}`;
}

/** The name of a cookie. Its prefix makes browsers accept and send it only over HTTPS. */
function nameOf(name: Cookie["name"], baseUrl: string): string {
  return isSecure(baseUrl) ? `__Secure-slipway_${name}` : `slipway_${name}`;
}

function isSecure(baseUrl: string): boolean {
  return baseUrl.startsWith("https:");
}
