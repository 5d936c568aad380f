// Tells public unicast addresses, which outward calls may reach, from all others, and parses ranges
// of addresses. Pure. The guard for outward calls adds the operator's exceptions and the platform's
// own listeners.
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

/** A normalized address: an IPv4 address in IPv6 form (`::ffff:…`) becomes IPv4. */
export type IpAddress = ipaddr.IPv4 | ipaddr.IPv6;

/** A range in CIDR form. */
export type Range = { readonly base: IpAddress; readonly prefixBits: number };

/** The kinds of addresses as a sentence names them: "… is a loopback address". */
const kindNames: Readonly<Record<string, string>> = {
  unspecified: "an unspecified",
  broadcast: "a broadcast",
  multicast: "a multicast",
  linkLocal: "a link-local",
  loopback: "a loopback",
  carrierGradeNat: "a shared (carrier-grade NAT)",
  private: "a private",
  uniqueLocal: "a private (unique local)",
  deprecatedSiteLocal: "a private (site-local)",
  rfc6145: "a translated IPv4",
  rfc6052: "a translated IPv4 (NAT64)",
  "6to4": "a tunnelled IPv4 (6to4)",
  teredo: "a tunnelled IPv4 (Teredo)",
  orchid2: "a non-routed (ORCHID)",
  deprecatedOrchid: "a non-routed (ORCHID)",
  segmentRouting: "a segment routing",
  discard: "a discard-only",
  benchmarking: "a benchmarking",
};

/**
 * The address at which an Azure host offers metadata and DNS to its virtual machines. It is not in
 * a special range.
 */
const azureHost = "168.63.129.16";

/**
 * Parses an address as a socket or a DNS answer gives it; null for anything else, including short,
 * octal and hexadecimal IPv4.
 */
export function readAddress(text: string): IpAddress | null {
  if (isIP(text) === 0) return null;
  const address = ipaddr.parse(text);
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()
    ? address.toIPv4Address()
    : address;
}

/** Returns null for a public unicast address, otherwise its kind, as in "a loopback". */
export function specialKind(address: IpAddress): string | null {
  const range = address.range();
  if (range !== "unicast") return kindNames[range] ?? "a reserved";
  if (address instanceof ipaddr.IPv4) return address.toString() === azureHost ? "a metadata" : null;
  return specialKindOfUnicast(address);
}

/** Recognizes addresses that `ipaddr.js` takes for ordinary IPv6 although they are not public. */
function specialKindOfUnicast({ parts }: ipaddr.IPv6): string | null {
  const [first = 0, second = 0, third = 0, fourth = 0, fifth = 0, sixth = 0] = parts;
  // The first 96 bits are zero.
  if ((first | second | third | fourth | fifth | sixth) === 0) return "an IPv4-compatible";
  // Only 2000::/3, whose first three bits are 001, is assigned as public; new assignments elsewhere
  // need a review first.
  const firstThreeBits = first >> 13;
  if (firstThreeBits !== 0b001) return "a reserved";
  // ISATAP: in any network, the last 32 bits are an IPv4 address. 0x200 says that the IPv4 address
  // is public.
  if ((fifth === 0 || fifth === 0x200) && sixth === 0x5efe) return "a tunnelled IPv4 (ISATAP)";
  return null;
}

/**
 * Parses `10.0.0.0/8`, `fd00::/8` or one address. Throws an Error that names the text and the
 * allowed forms.
 */
export function readRange(text: string): Range {
  const [addressText = "", prefixText, ...otherParts] = text.split("/");
  // `isIP` accepts a zone, as in `fe80::1%eth0`, but a range has none.
  const address =
    isIP(addressText) === 0 || addressText.includes("%") ? null : ipaddr.parse(addressText);
  const bits = address instanceof ipaddr.IPv4 ? 32 : 128;
  const prefix = prefixText ?? String(bits);
  // The number of bits has no sign and no leading zeros.
  if (
    address === null ||
    otherParts.length > 0 ||
    !/^(0|[1-9]\d{0,2})$/.test(prefix) ||
    Number(prefix) > bits
  ) {
    throw new Error(
      `"${text}" is not an address range; write it like 10.0.0.0/8, 192.168.1.20/32 or fd00::/8.`,
    );
  }
  const range = normalized({ base: address, prefixBits: Number(prefix) });
  const network = networkOf(range);
  if (network !== range.base.toString()) {
    throw new Error(
      `"${text}" is not an address range: the address has bits beyond /${prefix}; ` +
        `write ${network}/${range.prefixBits}, or ${range.base.toString()} for this address alone.`,
    );
  }
  return range;
}

/** Whether the range contains the address. */
export function isInRange(address: IpAddress, { base, prefixBits }: Range): boolean {
  if (address instanceof ipaddr.IPv4)
    return base instanceof ipaddr.IPv4 && address.match(base, prefixBits);
  return base instanceof ipaddr.IPv6 && address.match(base, prefixBits);
}

/**
 * Replaces a range that has only IPv4 addresses in IPv6 form (96 fixed bits, `::ffff:…`) by the
 * same range in IPv4 form.
 */
function normalized(range: Range): Range {
  const { base, prefixBits } = range;
  if (base instanceof ipaddr.IPv4 || prefixBits < 96 || !base.isIPv4MappedAddress()) return range;
  return { base: base.toIPv4Address(), prefixBits: prefixBits - 96 };
}

/** Returns the first address of the range: all bits after the prefix are zero. */
function networkOf({ base, prefixBits }: Range): string {
  const kind = base instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  return kind.networkAddressFromCIDR(`${base.toString()}/${prefixBits}`).toString();
}
