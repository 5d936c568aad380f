// Addresses for test servers: any free port of 127.0.0.1, or a fixed address that database rows
// contain.
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "./until.ts";

/** An address of this machine and a port. */
export type FixedAddress = { readonly host: string; readonly port: number };

/** Longer than another run of the same test occupies the address. */
const freeMs = 300_000;

/** Listens there as soon as the address is free; returns it. */
export async function listenAt(
  server: Server,
  at: FixedAddress = { host: "127.0.0.1", port: 0 },
): Promise<FixedAddress> {
  const listens = async (): Promise<boolean> => {
    server.listen(at.port, at.host);
    try {
      await once(server, "listening");
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return false;
      throw error;
    }
  };
  await until(`${at.host}:${at.port} is free`, listens, { deadlineMs: freeMs });
  return { host: at.host, port: (server.address() as AddressInfo).port };
}
