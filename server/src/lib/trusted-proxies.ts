// Where a request comes from when it came through proxies that the operator trusts: each adds to X-Forwarded-For the
// address that it was reached from, so the last one that is no trusted proxy's is the client's. Nobody else is believed.
import { BlockList, isIP } from "node:net";
import { plainAddress } from "./client-address.ts";
import { LruMap } from "./lru-map.ts";

/** Clients whose last request is remembered: they send the same again. */
const rememberedMost = 1_000;

/** The proxies of a setting, addresses and ranges (CIDR) that were checked before. */
export class TrustedProxies {
  readonly #ranges = new BlockList();
  readonly #remembered = new LruMap<string, string>(rememberedMost);

  constructor(ranges: readonly string[]) {
    for (const range of ranges) {
      const [address = "", bits] = range.split("/");
      const family = familyOf(address);
      this.#ranges.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
    }
  }

  /** The client's address. `peer` is the other end of the connection, `forwardedFor` the values of X-Forwarded-For, joined by commas. */
  clientAddress(peer: string, forwardedFor: string | undefined): string {
    if (forwardedFor === undefined) return peer;
    const key = `${peer} ${forwardedFor}`;
    const known = this.#remembered.get(key);
    if (known !== undefined) return known;
    const found = this.#find(peer, forwardedFor);
    this.#remembered.set(key, found);
    return found;
  }

  #find(peer: string, forwardedFor: string): string {
    let client = peer;
    for (const said of forwardedFor.split(",").toReversed()) {
      const address = said.trim();
      if (!this.#isTrusted(client) || isIP(address) === 0) return client;
      client = address;
    }
    return client;
  }

  #isTrusted(address: string): boolean {
    const plain = plainAddress(address);
    return isIP(plain) !== 0 && this.#ranges.check(plain, familyOf(plain));
  }
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
