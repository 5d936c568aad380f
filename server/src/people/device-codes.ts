// The two codes of a device login: a long one that the device keeps to itself, and a short one that
// a person reads and types. Of the long one only its hash is stored.
import { createHash, randomBytes, randomInt } from "node:crypto";

/**
 * No vowels, so that no words come about; nothing that is read for another (RFC 8628, 6.1). 20^8
 * codes.
 */
const letters = "BCDFGHJKLMNPQRSTVWXZ";
const lettersOfCode = 8;
const codeForm = new RegExp(`^[${letters}]{${lettersOfCode}}$`);
const deviceCodeBytes = 32;

/** A code for the device: 256 bits that nobody guesses. */
export function newDeviceCode(): string {
  return randomBytes(deviceCodeBytes).toString("base64url");
}

/**
 * What is stored of a device code. It has too many bits to be tried out, so a fast hash will do.
 */
export function hashOfDeviceCode(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}

/** A code for a person, such as `BCDF-GHJK`. */
export function newUserCode(): string {
  return shownUserCode(
    Array.from({ length: lettersOfCode }, () => letters[randomInt(letters.length)]).join(""),
  );
}

/**
 * The code as it is stored, however it was typed: small letters, spaces, without the dash. Null: it
 * cannot be one.
 */
export function readUserCode(typed: string): string | null {
  const code = typed.toUpperCase().replaceAll(/[\s-]/g, "");
  return codeForm.test(code) ? shownUserCode(code) : null;
}

function shownUserCode(code: string): string {
  return `${code.slice(0, lettersOfCode / 2)}-${code.slice(lettersOfCode / 2)}`;
}
