// Checks the setting egressCidrs, which limits what an app may reach outside the platform: whether
// a driver can enforce it here, and why not. Pure. `app-firewall.ts` has the rules.
import { howToChange, type Advised } from "@slipway/contract/advice.ts";
import { metadataRanges, privateRanges } from "./app-firewall.ts";

/** Whether the driver can limit what one app may reach. */
export type Egress =
  /** `allowed`: private ranges that apps may reach. */
  | { readonly canLimit: true; readonly allowed: readonly string[] }
  /** The driver cannot limit the egress of apps; `reason` ends a sentence. */
  | { readonly canLimit: false; readonly reason: string };

/** Says in a sentence why the setting cannot have its effect here; null when it can. */
export function egressRefusal(
  egress: Egress,
  cidrs: readonly string[] | null | undefined,
  advised: Advised = "owner",
): string | null {
  if (cidrs === null || cidrs === undefined) return null;
  if (!egress.canLimit) {
    return `egressCidrs is set, but what an app reaches cannot be limited here: ${egress.reason}. Leave it out${howToChange(advised)}, or ask the operator for networks of apps (docs/guides/isolation.md).`;
  }
  for (const cidr of cidrs) {
    const reason = whyClosed(cidr, egress.allowed);
    if (reason !== null) return `egressCidrs has "${cidr}", but ${reason}.`;
  }
  return null;
}

/**
 * Says why a replica must not be started: it would reach addresses that its settings exclude. Null:
 * it may be started.
 */
export function unlimitedRefusal(
  egress: Egress,
  spec: { readonly egressCidrs: readonly string[] | null },
): string | null {
  return egress.canLimit ? null : egressRefusal(egress, spec.egressCidrs);
}

function whyClosed(cidr: string, allowed: readonly string[]): string | null {
  if (cidr.includes(":")) return "apps have only IPv4 here";
  if (metadataRanges.some((range) => isWithin(cidr, range))) return "that is closed to all apps";
  const isPrivate = privateRanges.some((range) => isWithin(cidr, range));
  // If only a part of the range is allowed, the app reaches that part.
  if (!isPrivate || allowed.some((range) => isWithin(range, cidr) || isWithin(cidr, range)))
    return null;
  const open = allowed.length === 0 ? "none" : `only ${allowed.join(", ")}`;
  return `of private networks, apps may reach ${open} here (SLIPWAY_APP_NETWORK_ALLOW)`;
}

/** Whether an IPv4 range is within another; a single address is a range too. */
function isWithin(range: string, other: string): boolean {
  const [start, bits] = readCidr(range);
  const [otherStart, otherBits] = readCidr(other);
  const size = 2 ** (32 - otherBits);
  return bits >= otherBits && Math.floor(start / size) === Math.floor(otherStart / size);
}

/** Returns the first address of the range as a number, and the length of its prefix in bits. */
function readCidr(range: string): [start: number, bits: number] {
  const [address = "", bits = "32"] = range.split("/");
  const start = address.split(".").reduce((sum, byte) => sum * 256 + Number(byte), 0);
  return [start, Number(bits)];
}
