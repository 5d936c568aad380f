// Where requests come from when they come through proxies that the operator trusts: each adds to X-Forwarded-For the
// address that it was reached from, so the last one that is no trusted proxy's is the client's. Nobody else is believed.
// The one judge of this for the management API, calls of apps and what is recorded of both.
import { BlockList, isIP } from "node:net";
import { plainAddress } from "./client-address.ts";

/** Where one request comes from. */
export type Origin = {
  /** The client's address. */
  readonly address: string;
  /** The other end of the connection: the client itself, or the proxy nearest to the platform. */
  readonly peer: string;
  /** How many trusted proxies it came through. 0: nothing that it says of its way is believed. */
  readonly proxies: number;
};

/** The other end of a connection; whether it is a trusted proxy is looked up once. */
export type Peer = {
  /** Where a request comes from that says so. `forwardedFor`: the values of its X-Forwarded-For, joined by commas. */
  readonly originOf: (forwardedFor: string | undefined) => Origin;
};

type Connection = { readonly remoteAddress?: string | undefined };

/** The proxies of a setting, addresses and ranges (CIDR) that were checked before. */
export class TrustedProxies {
  readonly #ranges = new BlockList();
  readonly #peers = new WeakMap<Connection, Peer>();

  constructor(ranges: readonly string[]) {
    for (const range of ranges) {
      const [address = "", bits] = range.split("/");
      const family = familyOf(address);
      this.#ranges.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
    }
  }

  /** The other end of the connection, the same each time that it is asked for. */
  peerOf(connection: Connection): Peer {
    const known = this.#peers.get(connection);
    if (known !== undefined) return known;
    const address = connection.remoteAddress ?? "unknown";
    const direct: Origin = { address, peer: address, proxies: 0 };
    const peer: Peer = {
      originOf: this.#has(address) ? (forwardedFor) => this.#walk(address, forwardedFor) : () => direct,
    };
    this.#peers.set(connection, peer);
    return peer;
  }

  #walk(peer: string, forwardedFor = ""): Origin {
    const said = forwardedFor.split(",");
    let address = peer;
    let proxies = 0;
    while (this.#has(address)) {
      proxies++;
      const next = addressIn(said.pop() ?? "");
      if (next === null) break;
      address = next;
    }
    return { address, peer, proxies };
  }

  #has(address: string): boolean {
    return isIP(address) !== 0 && this.#ranges.check(address, familyOf(address));
  }
}

/**
 * What is believed of a field that says how a client reached the first proxy, such as X-Forwarded-Proto. Whether each proxy
 * adds a value or one of them sets it, what the client itself wrote is not taken. Undefined: nothing of that form is believed.
 */
export function believed({ proxies }: Origin, said: string | undefined, form: RegExp): string | undefined {
  if (proxies === 0 || said === undefined) return undefined;
  const values = said.split(",");
  const value = values[Math.max(0, values.length - proxies)]?.trim() ?? "";
  return form.test(value) ? value : undefined;
}

/** The address of one entry of X-Forwarded-For; some proxies add the port. Null: it has none. */
function addressIn(entry: string): string | null {
  const text = entry.trim();
  const bare = isIP(text) === 0 ? /^(?:\[([\da-f:.]+)\](?::\d+)?|([\d.]+):\d+)$/i.exec(text) : null;
  const address = bare?.[1] ?? bare?.[2] ?? text;
  return isIP(address) === 0 ? null : plainAddress(address);
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
