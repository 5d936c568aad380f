// Ports for programs that guides start.
import { randomInt } from "node:crypto";
import { isFree } from "@slipway/cli/src/free-port.ts";

/**
 * Unused ports for receivers of a guide, to replace the ports that the guide names. They are outside the range of ephemeral
 * ports and of replica ports; otherwise another test could take such a port before the guide uses it.
 */
export async function freePorts(count: number): Promise<string[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(10_000, 20_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports].map(String);
}
