// Who is signed in in this tab: a person, by the session's cookie, which no script can read and
// which gives short access tokens; or whoever pasted a service account's token, which is kept until
// the tab is closed.
import { noteFailure } from "./connection.ts";

const tokenKey = "slipway.token";
const renewEarlierMs = 60_000;

/** Who asks: a person, a service account, or nobody. */
export type Asker = "person" | "token" | "nobody";

type Access = { readonly token: string; readonly endsAtMs: number };

/** The person's access token; in memory only. */
let access: Access | null = null;
let renewing: Promise<string | null> | null = null;

/** The service account's token that was given in this tab; null: none. */
export function storedToken(): string | null {
  return sessionStorage.getItem(tokenKey);
}

/**
 * True when the token that was given in this tab is an operator's: it names no project. It decides
 * only what is offered.
 */
export function isOperator(): boolean {
  const token = storedToken();
  if (token === null) return false;
  try {
    const part = token.split(".")[1]?.replaceAll("-", "+").replaceAll("_", "/") ?? "";
    const claims: unknown = JSON.parse(atob(part));
    return (
      typeof claims === "object" && claims !== null && "jti" in claims && !("projectId" in claims)
    );
  } catch {
    // No token of this platform; it says so itself.
    return false;
  }
}

/** Keeps a service account's token for this tab; null forgets it. */
export function storeToken(token: string | null): void {
  if (token === null) sessionStorage.removeItem(tokenKey);
  else sessionStorage.setItem(tokenKey, token);
}

/** Takes the access token that a sign-in answered with. */
export function keepSignIn({
  accessToken,
  expiresIn,
}: {
  accessToken: string;
  expiresIn: number;
}): void {
  storeToken(null);
  keep(accessToken, expiresIn);
}

/** Who is signed in. Rejects when the platform cannot be reached. */
export async function asker(): Promise<Asker> {
  if (storedToken() !== null) return "token";
  return (await bearer()) === null ? "nobody" : "person";
}

/**
 * What to send as bearer token; null: nobody is signed in. Rejects when the platform cannot be
 * reached.
 */
export async function bearer(): Promise<string | null> {
  const token = storedToken();
  if (token !== null) return token;
  if (access !== null && Date.now() < access.endsAtMs - renewEarlierMs) return access.token;
  return await renew();
}

/** Another access token of the session; null: the session has ended, or there is none. */
export async function renew(): Promise<string | null> {
  renewing ??= askForAccess().finally(() => {
    renewing = null;
  });
  return await renewing;
}

/** Ends the session, and forgets all tokens. */
export async function endSession(): Promise<void> {
  const isToken = storedToken() !== null;
  storeToken(null);
  access = null;
  if (!isToken) await post("/v2/auth/sign-out");
}

/** Forgets the access token: the platform has refused it. */
export function forgetAccess(): void {
  access = null;
}

async function askForAccess(): Promise<string | null> {
  access = null;
  const response = await post("/v2/auth/token");
  if (response.status === 401 || response.status === 400) return null;
  if (!response.ok) throw new TypeError(`The platform answered ${response.status}.`);
  const { access_token: token, expires_in: seconds } = (await response.json()) as {
    access_token: string;
    expires_in: number;
  };
  keep(token, seconds);
  return token;
}

function keep(token: string, seconds: number): void {
  access = { token, endsAtMs: Date.now() + seconds * 1000 };
}

function post(path: string): Promise<Response> {
  const headers = { "content-type": "application/json", accept: "application/json" };
  return fetch(path, { method: "POST", headers, body: "{}", cache: "no-store" }).catch(
    (error: unknown) => {
      noteFailure();
      throw error;
    },
  );
}
