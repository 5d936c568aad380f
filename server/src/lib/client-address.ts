// Addresses of clients as sockets give them: in their one form, and the network that one client is counted by.
import ipaddr from "ipaddr.js";
import { isIP } from "node:net";

/** What is written as IPv6 but is an IPv4 address (`::ffff:192.0.2.1`) becomes that; what is no address stays as it is. */
export function plainAddress(address: string): string {
  return isIP(address) === 6 ? ipaddr.process(address).toString() : address;
}

/** A client with IPv6 has 64 bits of addresses of its own, and is counted as one: `2001:db8:0:1::/64`. */
export function networkOf(address: string): string {
  const plain = plainAddress(address);
  if (isIP(plain) !== 6) return plain;
  const bytes = ipaddr.parse(plain).toByteArray();
  return `${ipaddr.fromByteArray([...bytes.slice(0, 8), ...Array<number>(8).fill(0)]).toString()}/64`;
}
