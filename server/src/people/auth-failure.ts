// What better-auth refuses, in words of ours. Its codes reach nobody; what is not known here is a bug, whose cause goes
// to the log.
import { isAPIError } from "better-auth/api";
import { Fault, type FaultCode } from "#lib/fault.ts";

const refusals: Readonly<Record<string, readonly [FaultCode, string]>> = {
  INVALID_PASSWORD: ["not_usable", "The password is wrong."],
  INVALID_CODE: ["not_usable", "The code is wrong or was already used."],
  INVALID_BACKUP_CODE: ["not_usable", "The code is wrong or was already used."],
  INVALID_TWO_FACTOR_COOKIE: ["unauthorized", "The sign-in has expired, or had too many wrong codes; start it again."],
  TOO_MANY_ATTEMPTS_REQUEST_NEW_CODE: ["unauthorized", "There were too many wrong codes; start the sign-in again."],
  ACCOUNT_TEMPORARILY_LOCKED: ["rate_limited", "There were too many wrong codes; try again in 15 minutes."],
  TOTP_ALREADY_ENABLED: ["conflict", "Two-factor sign-in is already on; turn it off first."],
  TOTP_NOT_ENABLED: ["conflict", "Two-factor sign-in is not on."],
  BACKUP_CODES_NOT_ENABLED: ["conflict", "Two-factor sign-in is not on."],
  TWO_FACTOR_NOT_ENABLED: ["conflict", "Two-factor sign-in is not on."],
  INVALID_TOKEN: ["not_usable", "The link has expired or was already used; request a new one."],
};

/** The code of what better-auth refused; null for any other error. */
function refusalCode(error: unknown): string | null {
  if (!isAPIError(error)) return null;
  const code: unknown = error.body?.code;
  return typeof code === "string" ? code : null;
}

/** The fault for what better-auth threw; anything else is thrown as it is. */
export function faultOfAuth(error: unknown): Fault {
  const code = refusalCode(error);
  const known = code === null ? undefined : refusals[code];
  if (known === undefined) throw error;
  const [fault, message] = known;
  return new Fault(fault, message);
}
