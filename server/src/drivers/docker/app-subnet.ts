// The addresses of an app's network: those that no route of the machine leads to, or its replicas
// could not be reached. The engine knows its own networks only, and not those of another engine or
// of a virtual machine. Rules that come before the main table of routes, as some VPNs have them,
// are not seen. Pure.
import { randomInt } from "node:crypto";

/** Networks of 256 addresses lie in it, one for each app with replicas. */
export const subnetsRange = "10.216.0.0/13";

const first = 0x0ad8_0000;
const count = 2048;
const size = 256;
/** A route whose mask has none of these bits leads to all of the range, or to nothing in it. */
const bitsInRange = (count - 1) * size;

/** A route to the addresses that have the bits of `mask` in common with `to`. */
type Route = { readonly to: number; readonly mask: number };

/**
 * A random network (CIDR) to which no route of the machine leads; any if there is no such one.
 * `routes`: the text of /proc/net/route.
 */
export function chooseSubnet(routes: string): string {
  const taken = routesIn(routes);
  const begin = randomInt(count);
  for (let tried = 0; tried < count; tried++) {
    const network = first + ((begin + tried) % count) * size;
    if (!taken.some((route) => leadsTo(route, network))) return subnetOf(network);
  }
  return subnetOf(first + begin * size);
}

function routesIn(text: string): Route[] {
  const lines = text.split("\n").slice(1);
  const routes = lines.map((line) => {
    const [, to = "", , , , , , mask = ""] = line.split("\t");
    return { to: numberOf(to), mask: numberOf(mask) };
  });
  return routes.filter(({ mask }) => (mask & bitsInRange) !== 0);
}

function leadsTo({ to, mask }: Route, network: number): boolean {
  const common = mask & -size;
  return (to & common) === (network & common);
}

/** The kernel writes the last byte first. */
function numberOf(hex: string): number {
  return hex.length === 8 ? Buffer.from(hex, "hex").readUInt32LE() : 0;
}

function subnetOf(network: number): string {
  return `10.${(network >> 16) & 0xff}.${(network >> 8) & 0xff}.0/24`;
}
