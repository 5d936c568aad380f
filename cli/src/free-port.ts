// Finds a port of this machine that no program listens on.
import { once } from "node:events";
import { createServer } from "node:net";
import { Refused } from "./refused.ts";

const portsTried = 100;

/**
 * `wanted`, or without one the first free port from the usual one on. Throws `Refused` when
 * `wanted` is taken.
 */
export async function freePort(wanted: number | null, usual: number): Promise<number> {
  for (let port = wanted ?? usual; port < (wanted ?? usual) + portsTried; port++) {
    if (await isFree(port)) return port;
    if (wanted !== null)
      throw new Refused(
        `Port ${port} is taken by another program. Choose another one with --port.`,
      );
  }
  throw new Refused(`The ports from ${usual} on are taken. Choose one with --port.`);
}

/** True when nothing listens on the port of the loopback address. */
export async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
