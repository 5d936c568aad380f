// Ports for programs that tests start.
import { randomInt } from "node:crypto";
import { isFree } from "@slipway/cli/src/free-port.ts";

/**
 * Unused ports. They are outside the range of ephemeral ports and of replica ports; otherwise
 * another test could take such a port before it is used.
 */
export async function freePorts(count: number): Promise<string[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(10_000, 20_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports].map(String);
}
