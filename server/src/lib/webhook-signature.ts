// Signs everything that is posted to a receiver, as in Standard Webhooks
// (https://www.standardwebhooks.com). Pure except for creating secrets.
import { createHmac, randomBytes } from "node:crypto";
import { Secret } from "./secret.ts";

/** The prefix of a secret as receivers see it; the key follows in base64. */
export const secretPrefix = "whsec_";

/** The length of keys in bytes: Standard Webhooks requires 24 to 64. */
const keyBytes = { new: 32, min: 24, max: 64 } as const;

/** Returns a new random secret. */
export function makeWebhookSecret(): Secret {
  return new Secret(`${secretPrefix}${randomBytes(keyBytes.new).toString("base64")}`);
}

/**
 * Returns the key in a secret; null without the prefix, without valid base64, or with fewer than 24
 * or more than 64 bytes.
 */
export function readWebhookSecret(secret: string): Buffer | null {
  if (!secret.startsWith(secretPrefix)) return null;
  const text = secret.slice(secretPrefix.length);
  // The decoder skips characters that are not base64, so the key is encoded again and compared. The
  // padding (`=`) at the end may be missing.
  const key = Buffer.from(text, "base64");
  const isBase64 = key.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
  const hasLength = key.length >= keyBytes.min && key.length <= keyBytes.max;
  return isBase64 && hasLength ? key : null;
}

/**
 * Returns `v1,<base64>` for each key, separated by spaces. `seconds` is the time since the epoch.
 */
export function standardSignature(
  keys: readonly Buffer[],
  message: { readonly id: string; readonly body: Buffer },
  seconds: number,
): string {
  const head = `${message.id}.${seconds}.`;
  const sign = (key: Buffer): string => {
    const hmac = createHmac("sha256", key).update(head).update(message.body);
    return `v1,${hmac.digest("base64")}`;
  };
  return keys.map(sign).join(" ");
}
