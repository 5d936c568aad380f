// The session cookie, which pages of the platform exchange for access tokens. It is sent only to
// routes below /v2/auth, no script can read it, and no other site can make the browser send it. The
// device cookie is separate, see people/device-cookies.ts; a sign-out keeps it.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const path = "/v2/auth";
const maxAgeSeconds = 30 * 24 * 3600;
/** The maximum in browsers. */
const deviceMaxAgeSeconds = 400 * 24 * 3600;

/**
 * A cookie to set. A visit to a provider ends with a request from another site, which does not
 * carry `Strict` cookies.
 */
type Cookie = {
  readonly name: "session" | "device";
  readonly value: string;
  readonly maxAge: number;
  readonly sameSite: "Strict" | "Lax";
};

/** Sets the session cookie. `baseUrl` decides whether plain HTTP is allowed. */
export function setSessionCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  const sessionOnly = { name: "session", sameSite: "Strict" } as const;
  void reply.header(
    "set-cookie",
    line({ ...sessionOnly, value: value.reveal(), maxAge: maxAgeSeconds }, baseUrl),
  );
}

/** Sets the device cookie. */
export function setDeviceCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  const deviceOnly = { name: "device", sameSite: "Lax" } as const;
  void reply.header(
    "set-cookie",
    line({ ...deviceOnly, value: value.reveal(), maxAge: deviceMaxAgeSeconds }, baseUrl),
  );
}

/** Makes the browser delete the session cookie. */
export function clearSessionCookie(reply: FastifyReply, baseUrl: string): void {
  const gone = { name: "session", value: "", maxAge: 0, sameSite: "Strict" } as const;
  void reply.header("set-cookie", line(gone, baseUrl));
}

/** The value of the session cookie, or null. */
export function sessionCookie(request: FastifyRequest, baseUrl: string): string | null {
  return valueOf(request, nameOf("session", baseUrl));
}

/** The value of the device cookie, or null. */
export function deviceCookie(request: FastifyRequest, baseUrl: string): string | null {
  return valueOf(request, nameOf("device", baseUrl));
}

function valueOf(request: FastifyRequest, name: string): string | null {
  for (const part of (request.headers.cookie ?? "").split(";")) {
    const [key, value] = part.trim().split("=", 2);
    if (key === name && value !== undefined && value !== "") return value;
  }
  return null;
}

/**
 * Throws `Fault("forbidden")` for a request triggered by a page of another site. Programs send no
 * origin.
 */
export function requireOwnPage(request: FastifyRequest, baseUrl: string): void {
  const { "sec-fetch-site": site, origin, host } = request.headers;
  if (
    site !== undefined
      ? site === "same-origin" || site === "none"
      : isOwnOrigin(origin, host, baseUrl)
  )
    return;
  throw new Fault("forbidden", "Pages of other sites cannot sign people in or out.");
}

function isOwnOrigin(
  origin: string | undefined,
  host: string | undefined,
  baseUrl: string,
): boolean {
  if (origin === undefined) return true;
  // The page has the origin of the request's target, or the platform's public one.
  return (
    origin === new URL(baseUrl).origin ||
    (host !== undefined && URL.parse(origin)?.host === host.toLowerCase())
  );
}

function line({ name, value, maxAge, sameSite }: Cookie, baseUrl: string): string {
  const secure = isSecure(baseUrl) ? "; Secure" : "";
  // Browsers with too many cookies of one site evict those of apps first: see proxy/cookies.ts.
  return `${nameOf(name, baseUrl)}=${value}; Path=${path}; Max-Age=${maxAge}; HttpOnly; SameSite=${sameSite}; Priority=High${secure}`;
}

/** The prefix makes browsers accept and send it only over HTTPS. */
function nameOf(name: Cookie["name"], baseUrl: string): string {
  return isSecure(baseUrl) ? `__Secure-slipway_${name}` : `slipway_${name}`;
}

function isSecure(baseUrl: string): boolean {
  return baseUrl.startsWith("https:");
}
