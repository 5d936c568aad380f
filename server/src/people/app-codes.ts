// Codes of an authenticator app (TOTP, RFC 6238) and backup codes: making them, and telling whether
// one is right. Pure but for chance; who may try how often is for two-factor.ts.
import { createHmac, randomBytes, randomInt } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";

const stepMs = 30_000;
/** Codes of one step before and after are taken: clocks differ, and people type slowly. */
const steps = [-1, 0, 1];
const digits = 6;
const secretBytes = 24;
const backupCodes = 10;
const backupCodeLetters = 10;
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const base32Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** A new secret of an app, as text: its bytes in UTF-8 are the key. */
export function newAppSecret(): string {
  return randomBytes(secretBytes).toString("base64url");
}

/** What an app reads to show codes for the secret. */
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
 * When an app with the secret begins to show the code, in ms, of the step at the time, before and
 * after it; null: it does not.
 */
export function appCodeTime(secret: string, code: string, atMs: number): number | null {
  const now = Math.floor(atMs / stepMs);
  // All are compared: how long it takes says nothing about which one it was.
  const shown = steps
    .map((step) => now + step)
    .filter((step) => isSameText(code, appCode(secret, step)));
  const last = shown.at(-1);
  return last === undefined ? null : last * stepMs;
}

/** Ten codes such as `aB3dE-fG5hJ`, of 59 bits each. */
export function newBackupCodes(): string[] {
  return Array.from({ length: backupCodes }, () => {
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
  const number = hash.readUInt32BE((hash.at(-1) ?? 0) & 0x0f) & 0x7fff_ffff;
  return String(number % 10 ** digits).padStart(digits, "0");
}

function base32(text: string): string {
  const bits = [...Buffer.from(text)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? [])
    .map((five) => base32Letters[Number.parseInt(five.padEnd(5, "0"), 2)])
    .join("");
}
