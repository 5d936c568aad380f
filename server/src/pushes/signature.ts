// Checks the signatures of git hosts over the bytes as they were received. All comparisons take constant time.
import { createHmac, timingSafeEqual } from "node:crypto";
import { readWebhookSecret, standardSignature } from "#lib/webhook-signature.ts";
import { fieldOf, type SignedMessage } from "./push.ts";

/** Standard Webhooks accepts five minutes in both directions. */
const toleranceSeconds = 300;

/** HMAC-SHA256 in hexadecimal digits, with or without `sha256=`, in one of the fields. The whole text of the secret is the key. */
export function isHmacSigned(fields: readonly string[], { headers, body, secret }: SignedMessage): boolean {
  const expected = createHmac("sha256", secret).update(body).digest("hex");
  const given = fields.flatMap((name) => fieldOf(headers, name) ?? []);
  return given.some((signature) => isSame(signature.replace(/^sha256=/, ""), expected));
}

/** A signature of Standard Webhooks. False when it is older than five minutes. */
export function isStandardSigned({ headers, body, secret, nowMs }: SignedMessage): boolean {
  const id = fieldOf(headers, "webhook-id");
  const seconds = Number(fieldOf(headers, "webhook-timestamp"));
  const given = fieldOf(headers, "webhook-signature");
  const key = readWebhookSecret(secret);
  if (id === undefined || given === undefined || key === null) return false;
  if (!(Math.abs(nowMs / 1000 - seconds) <= toleranceSeconds)) return false;
  const expected = standardSignature([key], { id, body }, seconds);
  return given.split(" ").some((signature) => isSame(signature, expected));
}

/** Compares two texts; only their lengths can be told from the time that it takes. */
export function isSame(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
