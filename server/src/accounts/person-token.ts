// Access tokens of people: short-lived JWTs, signed like all other tokens, that name a person and
// one of the person's sessions. A token's rights are looked up, so that they end with the session.
import { Secret } from "#lib/secret.ts";
import type { PersonCaller } from "./caller.ts";
import type { SigningKey } from "./keys.ts";
import { signClaims } from "./sign.ts";

/** The lifetime of an access token in seconds; its session continues and issues new ones. */
export const personTokenSeconds = 4 * 3600;

/** Signs an access token, which is valid only while the session lasts. */
export async function signPersonToken(
  caller: Pick<PersonCaller, "personId" | "sessionId" | "email"> & {
    readonly key: SigningKey;
    readonly nowMs: number;
  },
): Promise<Secret> {
  const { key, personId, sessionId, email } = caller;
  const issuedAt = Math.floor(caller.nowMs / 1000);
  const claims = {
    sub: personId,
    sid: sessionId,
    email,
    iat: issuedAt,
    exp: issuedAt + personTokenSeconds,
  };
  return new Secret(await signClaims(claims, key));
}
