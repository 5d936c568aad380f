// Converts a replica's address between its forms: text in a database row, and options of node's
// HTTP client. Pure.
import type { Address } from "./driver.ts";

const socketPrefix = "unix:";

/** Returns `host:port` or `unix:/path`. Equal texts mean equal addresses. */
export function formatAddress(address: Address): string {
  return "path" in address ? `${socketPrefix}${address.path}` : `${address.host}:${address.port}`;
}

/** Parses what `formatAddress` wrote; null for any other text. */
export function parseAddress(text: string): Address | null {
  if (text.startsWith(socketPrefix)) return { path: text.slice(socketPrefix.length) };
  const colon = text.lastIndexOf(":");
  const port = Number(text.slice(colon + 1));
  const isUsable = colon > 0 && Number.isInteger(port) && port > 0;
  return isUsable ? { host: text.slice(0, colon), port } : null;
}

/** Returns the address as options of `http.request`, where a path is called `socketPath`. */
export function requestAddress(
  address: Address,
): { host: string; port: number } | { socketPath: string } {
  return "path" in address
    ? { socketPath: address.path }
    : { host: address.host, port: address.port };
}
