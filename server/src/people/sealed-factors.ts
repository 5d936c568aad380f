// How secrets of second factors are kept: encrypted with the secret of auth-secret.ts, in the form that better-auth has given
// them since the first ones were stored.
import { symmetricDecrypt, symmetricEncrypt } from "better-auth/crypto";
import type { Secret } from "#lib/secret.ts";

/** The text to store. */
export function sealFactor(key: Secret, text: string): Promise<string> {
  return symmetricEncrypt({ key: keysOf(key), data: text });
}

/** What was sealed. Throws when it was altered, or sealed with another secret. */
export function openFactor(key: Secret, sealed: string): Promise<string> {
  return symmetricDecrypt({ key: keysOf(key), data: sealed });
}

/** The number is part of what is stored. */
function keysOf(key: Secret): { keys: Map<number, string>; currentVersion: number } {
  return { keys: new Map([[1, key.reveal()]]), currentVersion: 1 };
}
