// Signs claims with the platform's keys. The same claims in the same order and the same key give
// the same bytes, since RS256 has no randomness.
import { SignJWT, type JWTPayload } from "jose";
import { signatureAlgorithm, type SigningKey } from "./keys.ts";

/** Returns a compact JWT of exactly these claims: the caller provides `iat` and `exp`. */
export function signClaims(claims: JWTPayload, key: SigningKey): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: signatureAlgorithm, typ: "JWT", kid: key.id })
    .sign(key.privateKey);
}
