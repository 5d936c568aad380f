// The rules for new passwords. Length matters most; the person's email address is refused.
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const lengthMin = 10;
/** A longer text would cost much time to hash, and `isPassword` refuses it. */
const lengthMax = 1_000;
/** The minimum number of different characters, so that a key held down is no password. */
const differentMin = 4;

/**
 * Checks a new password. Throws `Fault("invalid")`, which names the field and never the password.
 */
export function checkNewPassword(field: string, password: Secret, email: string): void {
  const text = password.reveal();
  if (text.length < lengthMin || text.length > lengthMax) {
    throw new Fault("invalid", `${field} must have ${lengthMin} to ${lengthMax} characters.`);
  }
  if (new Set(text).size < differentMin) {
    throw new Fault("invalid", `${field} must have at least ${differentMin} different characters.`);
  }
  if (text.toLowerCase() === email.toLowerCase()) {
    throw new Fault("invalid", `${field} must not be the email address.`);
  }
}
