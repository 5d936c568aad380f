// Finds the origin of requests that come through proxies which the operator trusts. Each proxy
// appends to X-Forwarded-For the address that connected to it, so the last address that is not a
// trusted proxy's is the client's. Entries before it are ignored, since clients can invent them.
// The management API, calls of apps and the records of both use the origin.
import { getOrInsert } from "./get-or-insert.ts";
import { BlockList, isIP } from "node:net";
import { plainAddress } from "./client-address.ts";

/** Where one request comes from. */
export type Origin = {
  /** The client's address. */
  readonly address: string;
  /** The other end of the connection: the client itself, or the proxy nearest to the platform. */
  readonly peer: string;
  /**
   * How many trusted proxies the request came through. 0: its headers about its origin are not
   * believed.
   */
  readonly proxies: number;
  /** The connection is encrypted: it was accepted by the platform's own HTTPS port. */
  readonly isEncrypted: boolean;
};

/** The other end of a connection; whether it is a trusted proxy is looked up once. */
export type Peer = {
  /** See `Origin`. */
  readonly isEncrypted: boolean;
  /**
   * Returns the origin of a request. `forwardedFor`: the values of its X-Forwarded-For, joined by
   * commas.
   */
  readonly originOf: (forwardedFor: string | undefined) => Origin;
};

/** The part of a socket that tells where its other end is. */
type Connection = {
  readonly remoteAddress?: string | undefined;
  /** Set by connections with TLS. */
  readonly encrypted?: boolean;
};

/**
 * The trusted proxies that a setting names: addresses and CIDR ranges, already validated. Addresses
 * in `apps`, the ranges of apps, are trusted only where a range within those names them: an app
 * could otherwise make up where its calls come from.
 */
export class TrustedProxies {
  readonly #ranges: BlockList;
  readonly #apps: BlockList;
  /** The ranges that lie within those of apps. */
  readonly #namedWithinApps: BlockList;
  readonly #peers = new WeakMap<Connection, Peer>();

  constructor(ranges: readonly string[], apps: readonly string[] = []) {
    this.#ranges = listOf(ranges);
    this.#apps = listOf(apps);
    this.#namedWithinApps = listOf(ranges.filter((range) => isWithin(range, apps)));
  }

  /** Returns the other end of the connection; the same object on every call. */
  peerOf(connection: Connection): Peer {
    return getOrInsert(this.#peers, connection, () => {
      // A connection that has ended already has no address.
      const address = connection.remoteAddress ?? "unknown";
      const isEncrypted = connection.encrypted === true;
      const direct: Origin = { address, peer: address, proxies: 0, isEncrypted };
      return {
        isEncrypted,
        originOf: this.has(address)
          ? (forwardedFor) => this.#walk(direct, forwardedFor)
          : () => direct,
      };
    });
  }

  /** Whether the address is that of a trusted proxy. */
  has(address: string): boolean {
    if (isIP(address) === 0) return false;
    const family = familyOf(address);
    const isApps = this.#apps.check(address, family);
    return (isApps ? this.#namedWithinApps : this.#ranges).check(address, family);
  }

  /**
   * Goes from the connection's address through `forwardedFor`, from its end, as long as the
   * addresses are those of trusted proxies.
   */
  #walk({ peer, isEncrypted }: Origin, forwardedFor = ""): Origin {
    const addresses = forwardedFor.split(",");
    let address = peer;
    let proxies = 0;
    while (this.has(address)) {
      proxies++;
      const next = addressIn(addresses.pop() ?? "");
      if (next === null) break;
      address = next;
    }
    return { address, peer, proxies, isEncrypted };
  }
}

/**
 * Returns the trustworthy value of a header that says how a client reached the first proxy, such as
 * X-Forwarded-Proto. Never returns a value of the client itself, whether each proxy appends a value
 * or one of them sets it. Returns undefined when there is no trusted value of that form.
 */
export function believed(
  { proxies }: Origin,
  header: string | undefined,
  form: RegExp,
): string | undefined {
  if (proxies === 0 || header === undefined) return undefined;
  // If each proxy appends a value, the value of the first trusted proxy is the one `proxies` places
  // from the end. With fewer values, a trusted proxy has set the header, and the first value
  // counts.
  const values = header.split(",");
  const value = values[Math.max(0, values.length - proxies)]?.trim() ?? "";
  return form.test(value) ? value : undefined;
}

/** Returns the address in an entry of X-Forwarded-For, without its port; null when it has none. */
function addressIn(entry: string): string | null {
  const text = entry.trim();
  // With a port, an IPv6 address is in brackets. Brackets may also be there without a port.
  const bare = isIP(text) === 0 ? /^(?:\[([\da-f:.]+)\](?::\d+)?|([\d.]+):\d+)$/i.exec(text) : null;
  // The first group is an IPv6 address in brackets, the second an IPv4 address before a port.
  const address = bare?.[1] ?? bare?.[2] ?? text;
  return isIP(address) === 0 ? null : plainAddress(address);
}

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const { address, bits, family } = partsOf(range);
    list.addSubnet(address, bits, family);
  }
  return list;
}

/** Whether all addresses of the range are in one of the others. */
function isWithin(range: string, others: readonly string[]): boolean {
  const { address, bits, family } = partsOf(range);
  return others.some(
    (other) => bits >= partsOf(other).bits && listOf([other]).check(address, family),
  );
}

function partsOf(range: string) {
  const [address = "", bits] = range.split("/");
  const family = familyOf(address);
  const bitsMax = family === "ipv6" ? 128 : 32;
  return { address, bits: bits === undefined ? bitsMax : Number(bits), family };
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
