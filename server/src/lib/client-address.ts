// Normalizes client addresses from sockets, and finds the network under which a client is counted.
import ipaddr from "ipaddr.js";
import { isIP } from "node:net";

/**
 * Normalizes an IPv6 address; an IPv4 address in IPv6 form (`::ffff:192.0.2.1`) becomes plain IPv4.
 * Other text stays unchanged.
 */
export function plainAddress(address: string): string {
  return isIP(address) === 6 ? ipaddr.process(address).toString() : address;
}

/**
 * Returns the network under which a client is counted: the address itself for IPv4, and the 64-bit
 * network for IPv6 (`2001:db8:0:1::/64`), since one client usually has all of it.
 */
export function networkOf(address: string): string {
  const plain = plainAddress(address);
  if (isIP(plain) !== 6) return plain;
  const bytes = ipaddr.parse(plain).toByteArray();
  const network = ipaddr.fromByteArray([...bytes.slice(0, 8), ...Array<number>(8).fill(0)]);
  return `${network.toString()}/64`;
}

/** True for `localhost`, and for addresses at which a machine reaches itself. */
export function isLoopback(host: string): boolean {
  const plain = plainAddress(host);
  if (isIP(plain) === 4) return plain.startsWith("127.");
  return plain === "localhost" || plain === "::1";
}
