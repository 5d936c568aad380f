// The two codes of a device login: a long one, which only the device knows, and a short one, which
// a person reads and types. Only a hash of the long code is stored.
import { createHash, randomBytes, randomInt } from "node:crypto";

/**
 * The letters of short codes: there are 20^8 codes. Vowels are left out, so that no words result,
 * and so are characters that look alike (RFC 8628, 6.1).
 */
const letters = "BCDFGHJKLMNPQRSTVWXZ";
const lettersOfCode = 8;
const codeForm = new RegExp(`^[${letters}]{${lettersOfCode}}$`);
const deviceCodeBytes = 32;

/** A new code for the device, of 256 random bits. */
export function newDeviceCode(): string {
  return randomBytes(deviceCodeBytes).toString("base64url");
}

/** The stored hash of a device code. A fast hash is enough, since nobody can try all codes. */
export function hashOfDeviceCode(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}

/** A new code for a person, such as `BCDF-GHJK`. */
export function newUserCode(): string {
  const randomLetter = (): string => letters.charAt(randomInt(letters.length));
  return shownUserCode(Array.from({ length: lettersOfCode }, randomLetter).join(""));
}

/**
 * The stored form of a code that a person has typed, perhaps in small letters, with spaces or
 * without the dash. Null: the text cannot be a code.
 */
export function readUserCode(typed: string): string | null {
  const code = typed.toUpperCase().replaceAll(/[\s-]/g, "");
  return codeForm.test(code) ? shownUserCode(code) : null;
}

function shownUserCode(code: string): string {
  return `${code.slice(0, lettersOfCode / 2)}-${code.slice(lettersOfCode / 2)}`;
}
