// Addresses of replicas in tests: the TCP port of a replica, and a request to a replica at any kind
// of address.
import assert from "node:assert/strict";
import { request } from "node:http";
import { requestAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";

/** Host and port; fails for a Unix socket. */
export function tcpAddress(address: Address): { readonly host: string; readonly port: number } {
  assert.ok("port" in address, "the replica listens at a port");
  return address;
}

/**
 * Sends a request to a replica; resolves with status and body, rejects when it cannot be reached.
 */
export function askAddress(
  address: Address,
  options: { path?: string; method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<{ readonly status: number; readonly body: string }> {
  const { body, ...rest } = options;
  return new Promise((resolve, reject) => {
    const asking = request({ ...requestAddress(address), ...rest, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => (text += piece));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: text }));
      response.on("error", reject);
    });
    asking.on("error", reject);
    asking.end(body);
  });
}
