// What a new password must be. Length is what counts; what is known to everybody is none.
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const lengthLeast = 10;
const lengthMost = 1_000;
/** Fewer different characters are a key held down. */
const differentLeast = 4;

/** Throws `Fault("invalid")`, which names the field and never the password. */
export function checkNewPassword(field: string, password: Secret, email: string): void {
  const text = password.reveal();
  if (text.length < lengthLeast || text.length > lengthMost) {
    throw new Fault("invalid", `${field} must have ${lengthLeast} to ${lengthMost} characters.`);
  }
  if (new Set(text).size < differentLeast) {
    throw new Fault("invalid", `${field} must have at least ${differentLeast} different characters.`);
  }
  if (text.toLowerCase() === email.toLowerCase()) {
    throw new Fault("invalid", `${field} must not be the email address.`);
  }
}
