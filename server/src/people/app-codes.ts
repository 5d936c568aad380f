// Makes and checks the codes of an authenticator app (TOTP, RFC 6238), and makes backup codes. Pure
// except for random numbers. How often a person may try a code is decided by two-factor.ts.
import { createHmac, randomBytes, randomInt } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";

/** How long an app shows a code; the URI for the app says so too. */
const stepMs = 30_000;
/**
 * The codes of the step before and after are accepted too: clocks differ, and people type slowly.
 */
const stepOffsets = [-1, 0, 1];
const digits = 6;
/** The key is the text of these bytes in base64url: 32 bytes, where RFC 4226 recommends 20. */
const secretBytes = 24;
const backupCodeCount = 10;
const backupCodeLetters = 10;
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const base32Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** A new secret for an app, as a text whose bytes in UTF-8 are the key. */
export function newAppSecret(): string {
  return randomBytes(secretBytes).toString("base64url");
}

/** The URI from which an app reads the secret, usually as a QR code. */
export function appUri(secret: string, email: string): string {
  const query = new URLSearchParams({
    secret: base32(secret),
    issuer: "Slipway",
    digits: `${digits}`,
    period: "30",
  });
  return `otpauth://totp/Slipway:${encodeURIComponent(email)}?${query.toString()}`;
}

/**
 * The beginning of the step in which an app with the secret shows the code, in milliseconds. Tries
 * only the step at `atMs` and the steps right before and after it; null: it is the code of none of
 * them.
 */
export function appCodeTime(secret: string, code: string, atMs: number): number | null {
  const currentStep = Math.floor(atMs / stepMs);
  // All codes are compared, so that the time that it takes does not tell which one matched.
  const matching = stepOffsets
    .map((offset) => currentStep + offset)
    .filter((step) => isSameText(code, appCode(secret, step)));
  const last = matching.at(-1);
  return last === undefined ? null : last * stepMs;
}

/** Ten codes such as `aB3dE-fG5hJ`, of 59 bits each. */
export function newBackupCodes(): string[] {
  return Array.from({ length: backupCodeCount }, () => {
    const code = Array.from(
      { length: backupCodeLetters },
      () => letters[randomInt(letters.length)],
    ).join("");
    return `${code.slice(0, backupCodeLetters / 2)}-${code.slice(backupCodeLetters / 2)}`;
  });
}

function appCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigInt64BE(BigInt(step));
  const hash = createHmac("sha1", secret).update(counter).digest();
  // The last four bits of the hash say at which of its bytes the number begins. The number's sign
  // bit is dropped (RFC 4226, 5.3).
  const offset = (hash.at(-1) ?? 0) & 0x0f;
  const number = hash.readUInt32BE(offset) & 0x7fff_ffff;
  return String(number % 10 ** digits).padStart(digits, "0");
}

function base32(text: string): string {
  const bits = [...Buffer.from(text)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? [])
    .map((five) => base32Letters[Number.parseInt(five.padEnd(5, "0"), 2)])
    .join("");
}
