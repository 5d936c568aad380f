// What a new password must be. Length is what counts; what is known to everybody is none.
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";

const lengthMin = 10;
const lengthMax = 1_000;
/** Fewer different characters are a key held down. */
const differentMin = 4;

/** Throws `Fault("invalid")`, which names the field and never the password. */
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
