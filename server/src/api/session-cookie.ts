// The cookie of a session: for pages of the platform, which use it to get access tokens. It reaches the routes below
// /v2/auth only, no script can read it, and no other site can have it sent.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const path = "/v2/auth";
const maxAgeSeconds = 30 * 24 * 3600;

/** Sets it. `baseUrl` tells whether it may go over plain HTTP. */
export function setSessionCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  void reply.header("set-cookie", cookie({ value: value.reveal(), maxAge: maxAgeSeconds, baseUrl }));
}

/** Has the browser remove it. */
export function clearSessionCookie(reply: FastifyReply, baseUrl: string): void {
  void reply.header("set-cookie", cookie({ value: "", maxAge: 0, baseUrl }));
}

/** Its value, or null. */
export function sessionCookie(request: FastifyRequest, baseUrl: string): string | null {
  const name = nameOf(baseUrl);
  for (const part of (request.headers.cookie ?? "").split(";")) {
    const [key, value] = part.trim().split("=", 2);
    if (key === name && value !== undefined && value !== "") return value;
  }
  return null;
}

/** Throws `Fault("forbidden")` for a request that a page of another site had the browser send. Programs name no site. */
export function requireOwnPage(request: FastifyRequest, baseUrl: string): void {
  const { "sec-fetch-site": site, origin, host } = request.headers;
  if (site !== undefined ? site === "same-origin" || site === "none" : isOwnOrigin(origin, host, baseUrl)) return;
  throw new Fault("forbidden", "Pages of other sites cannot sign people in or out.");
}

function isOwnOrigin(origin: string | undefined, host: string | undefined, baseUrl: string): boolean {
  if (origin === undefined) return true;
  // The page came from the address that the request goes to, or from the platform's public one.
  return origin === new URL(baseUrl).origin || (host !== undefined && URL.parse(origin)?.host === host.toLowerCase());
}

function cookie({ value, maxAge, baseUrl }: { value: string; maxAge: number; baseUrl: string }): string {
  const secure = isSecure(baseUrl) ? "; Secure" : "";
  // Browsers that have too many cookies of one site let those of apps go first: see proxy/cookies.ts.
  return `${nameOf(baseUrl)}=${value}; Path=${path}; Max-Age=${maxAge}; HttpOnly; SameSite=Strict; Priority=High${secure}`;
}

/** The prefix has browsers refuse it over plain HTTP, and from there. */
function nameOf(baseUrl: string): string {
  return isSecure(baseUrl) ? "__Secure-slipway_session" : "slipway_session";
}

function isSecure(baseUrl: string): boolean {
  return baseUrl.startsWith("https:");
}
