// The cookie of a session: for pages of the platform, which use it to get access tokens. It reaches the routes below
// /v2/auth only, no script can read it, and no other site can have it sent. Beside it the one of a device, see
// people/device-cookies.ts, which a sign-out leaves.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const path = "/v2/auth";
const maxAgeSeconds = 30 * 24 * 3600;
/** Browsers keep none for longer. */
const deviceMaxAgeSeconds = 400 * 24 * 3600;

/** What is set. A visit to a provider ends with a request from another site, which `Strict` ones do not go with. */
type Cookie = {
  readonly name: "session" | "device";
  readonly value: string;
  readonly maxAge: number;
  readonly sameSite: "Strict" | "Lax";
};

/** Sets it. `baseUrl` tells whether it may go over plain HTTP. */
export function setSessionCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  const sessionOnly = { name: "session", sameSite: "Strict" } as const;
  void reply.header("set-cookie", line({ ...sessionOnly, value: value.reveal(), maxAge: maxAgeSeconds }, baseUrl));
}

/** Sets the one of a device. */
export function setDeviceCookie(reply: FastifyReply, value: Secret, baseUrl: string): void {
  const deviceOnly = { name: "device", sameSite: "Lax" } as const;
  void reply.header("set-cookie", line({ ...deviceOnly, value: value.reveal(), maxAge: deviceMaxAgeSeconds }, baseUrl));
}

/** Has the browser remove it. */
export function clearSessionCookie(reply: FastifyReply, baseUrl: string): void {
  const gone = { name: "session", value: "", maxAge: 0, sameSite: "Strict" } as const;
  void reply.header("set-cookie", line(gone, baseUrl));
}

/** Its value, or null. */
export function sessionCookie(request: FastifyRequest, baseUrl: string): string | null {
  return valueOf(request, nameOf("session", baseUrl));
}

/** The value of the device's, or null. */
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

function line({ name, value, maxAge, sameSite }: Cookie, baseUrl: string): string {
  const secure = isSecure(baseUrl) ? "; Secure" : "";
  // Browsers that have too many cookies of one site let those of apps go first: see proxy/cookies.ts.
  return `${nameOf(name, baseUrl)}=${value}; Path=${path}; Max-Age=${maxAge}; HttpOnly; SameSite=${sameSite}; Priority=High${secure}`;
}

/** The prefix has browsers refuse it over plain HTTP, and from there. */
function nameOf(name: Cookie["name"], baseUrl: string): string {
  return isSecure(baseUrl) ? `__Secure-slipway_${name}` : `slipway_${name}`;
}

function isSecure(baseUrl: string): boolean {
  return baseUrl.startsWith("https:");
}
