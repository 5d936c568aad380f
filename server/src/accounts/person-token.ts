// Access tokens of people: short-lived JWTs, signed like all others, that name a person and one of their sessions. What
// they may do is looked up, so that it ends with the session.
import { SignJWT } from "jose";
import { Secret } from "#lib/secret.ts";
import { signatureAlgorithm, type SigningKey } from "./keys.ts";

/** How long one is valid, in seconds; sessions go on, and give new ones. */
export const personTokenSeconds = 4 * 3600;

/** Signs one. It is valid only while the session is. */
export async function signPersonToken(wanted: {
  readonly key: SigningKey;
  readonly personId: string;
  readonly sessionId: string;
  readonly email: string;
  readonly nowMs: number;
}): Promise<Secret> {
  const { key, personId, sessionId, email } = wanted;
  const issuedAt = Math.floor(wanted.nowMs / 1000);
  const token = await new SignJWT({ sub: personId, sid: sessionId, email, iat: issuedAt })
    .setExpirationTime(issuedAt + personTokenSeconds)
    .setProtectedHeader({ alg: signatureAlgorithm, typ: "JWT", kid: key.id })
    .sign(key.privateKey);
  return new Secret(token);
}
