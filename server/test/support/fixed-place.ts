// Where a test's server listens: on any free port of 127.0.0.1, or at a place that rows of a database name.
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "./until.ts";

/** An address of this machine, and a port. */
export type FixedPlace = { readonly host: string; readonly port: number };

/** More than another run of the same test keeps the place for. */
const freeMs = 300_000;

/** Listens there, once nobody else does; returns where it listens. */
export async function listenAt(server: Server, at: FixedPlace = { host: "127.0.0.1", port: 0 }): Promise<FixedPlace> {
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
