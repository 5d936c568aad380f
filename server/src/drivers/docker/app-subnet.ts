// Chooses the addresses of an app's network. No route of the machine may lead to them, or replicas
// could not be reached. Docker itself would avoid only its own networks, but not the networks of
// another engine or of virtual machines. Routes outside the main routing table, as some VPNs have
// them, are not seen. Pure.
import { randomInt } from "node:crypto";

/** The range of all apps' networks, each of which has 256 addresses. */
export const subnetsRange = "10.216.0.0/13";

/** 10.216.0.0 as a number. */
const firstNetwork = 0x0ad8_0000;
/** The prefix of the range has 13 bits and that of a network 24, so there are 2 ** 11 networks. */
const networkCount = 2048;
const networkSize = 256;
/** The bits of an address that say which of the networks it is in. */
const networkBits = (networkCount - 1) * networkSize;

/** A route to all addresses that equal `to` in the bits of `mask`. */
type Route = { readonly to: number; readonly mask: number };

/**
 * A random network (CIDR) to which no route of the machine leads, or any network if there are
 * routes to all. `routes` is the text of /proc/net/route.
 */
export function chooseSubnet(routes: string): string {
  const taken = routesIn(routes);
  const firstTried = randomInt(networkCount);
  for (let tried = 0; tried < networkCount; tried++) {
    const network = firstNetwork + ((firstTried + tried) % networkCount) * networkSize;
    if (!taken.some((route) => leadsTo(route, network))) return subnetOf(network);
  }
  return subnetOf(firstNetwork + firstTried * networkSize);
}

/** The routes that lead to only some of the networks, unlike a default route. */
function routesIn(text: string): Route[] {
  // The first line names the columns.
  const lines = text.split("\n").slice(1);
  const routes = lines.map((line) => {
    const columns = line.split("\t");
    // The second column is the destination, the eighth the mask.
    return { to: numberOf(columns[1] ?? ""), mask: numberOf(columns[7] ?? "") };
  });
  return routes.filter(({ mask }) => (mask & networkBits) !== 0);
}

function leadsTo({ to, mask }: Route, network: number): boolean {
  // `-networkSize` has all bits except the ones that number the addresses within a network.
  const comparedBits = mask & -networkSize;
  return (to & comparedBits) === (network & comparedBits);
}

/**
 * Parses an address in the kernel's format: hexadecimal, and the last byte first. Returns 0 for a
 * missing column: the text ends with an empty line.
 */
function numberOf(hex: string): number {
  return hex.length === 8 ? Buffer.from(hex, "hex").readUInt32LE() : 0;
}

function subnetOf(network: number): string {
  return `10.${(network >> 16) & 0xff}.${(network >> 8) & 0xff}.0/24`;
}
