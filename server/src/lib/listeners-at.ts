// Says which of the listening sockets of the kernel's tables gets connections to an address. Pure.
import { isIP, SocketAddress } from "node:net";
import { listeningRows, type SocketRow } from "./listening-rows.ts";

type At = { readonly host: string; readonly port: number };

/**
 * Returns the listening sockets of which one gets a connection to `host`: those that listen at that
 * very address, or else those that listen at every address. A name other than `localhost` is not
 * looked up: all sockets at the port are returned.
 */
export function listenersAt(tables: string, { host, port }: At): readonly SocketRow[] {
  if (host === "localhost")
    return ["127.0.0.1", "::1"].flatMap((address) => listenersAt(tables, { host: address, port }));
  const rows = listeningRows(tables).filter((row) => row.port === port);
  if (isIP(host) === 0) return rows;
  const at = (...addresses: readonly string[]): readonly SocketRow[] =>
    rows.filter((row) => addresses.includes(addressOf(row)));
  if (isIP(host) === 6) return firstFilled(at(shortest(host)), at("::"));
  // A socket of IPv6 at every address gets the connections that no socket of IPv4 gets.
  return firstFilled(at(host, `::ffff:${host}`), at("0.0.0.0"), at("::"));
}

function firstFilled(...lists: readonly (readonly SocketRow[])[]): readonly SocketRow[] {
  return lists.find((list) => list.length > 0) ?? [];
}

/** The kernel writes each word of 32 bits with its last byte first. */
function addressOf({ address }: SocketRow): string {
  const bytes = Buffer.from(address, "hex").swap32();
  if (bytes.length === 4) return bytes.join(".");
  const groups = bytes.toString("hex").match(/.{4}/g) ?? [];
  return shortest(groups.join(":"));
}

/** An address of IPv6 in its shortest form. */
function shortest(address: string): string {
  return new SocketAddress({ address, family: "ipv6" }).address;
}
