// Reads the names that people give as domains, and refuses those that no app can have: the
// platform's own, addresses, patterns. Pure.
import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import { refused } from "#apps/refusal.ts";
import type { Fault } from "#lib/fault.ts";

/** The names of the platform itself. */
export type PlatformNames = {
  /** The host of its public URL. */
  readonly host: string;
  /** The domain below which each app has a host name. */
  readonly parent: string;
};

/** The name below which a TXT record proves a domain. */
export const challengeLabel = "_slipway-challenge";
/** DNS allows 253 characters, and the name of the challenge must fit too. */
const lengthMax = 253 - challengeLabel.length - 1;
/** A part of a name has at most 63 characters. */
const labelForm = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/**
 * Last parts of names that no app can have: DNS never has the first ones (RFC 6761, 6762, 7686),
 * and `arpa` is for the names of addresses.
 */
const unusable: ReadonlySet<string> = new Set(["localhost", "local", "invalid", "onion", "arpa"]);
const allowed = "a host name with at least two parts, such as shop.example.org";

/**
 * Returns the name as DNS has it: in lower case, without a final dot, and with punycode for other
 * scripts. Throws `Fault("invalid")`.
 */
export function readDomainName(text: string, platform: PlatformNames): string {
  const refuse = (why: string): Fault => refused({ field: "name", given: text, allowed: why });
  const given = text.trim().replace(/\.$/, "");
  if (given.includes("*"))
    throw refuse("one host name, without *: add each name that the app is to answer on");
  // IPv6 addresses have colons too, but are refused below, with another text.
  if (/[/:@?#\s]/.test(given) && isIP(given) === 0)
    throw refuse(`${allowed}, without scheme, port and path`);
  const name = domainToASCII(given);
  if (isIP(given) !== 0 || isIP(name) !== 0) throw refuse(`${allowed}, and no address`);
  const labels = name.split(".");
  const isName = labels.length > 1 && labels.every((label) => labelForm.test(label));
  // A name whose last part is a number may be taken for an address.
  if (!isName || /^\d+$/.test(labels.at(-1) ?? "")) throw refuse(allowed);
  if (name.length > lengthMax) throw refuse(`at most ${lengthMax} characters long`);
  if (unusable.has(labels.at(-1) ?? "")) throw refuse(`${allowed}, and one that DNS can have`);
  for (const own of [platform.host, platform.parent]) {
    if (name === own || name.endsWith(`.${own}`))
      throw refuse(`a name of yours: ${own} and all names below it are the platform's`);
  }
  // With a name above the platform's own, pages of an app could set cookies that the dashboard
  // gets.
  if (platform.host.endsWith(`.${name}`))
    throw refuse(`a name that the platform's own, ${platform.host}, is not below`);
  return name;
}
