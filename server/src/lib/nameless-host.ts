// Tells hosts of URLs that need no DNS from names. Nobody can have DNS lead them elsewhere, and no
// authority issues certificates for them as for names. Pure.
import { isIP } from "node:net";

/** Whether the host of a URL is an IP address, `localhost` or a name below it. Without a port. */
export function isAddressOrLocalhost(hostname: string): boolean {
  const name = hostname.toLowerCase();
  return /(?:^|\.)localhost$/.test(name) || isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0;
}
