// Assigns ports of this machine to custom apps; never assigns one twice while its replica lives.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { StartRefused } from "#drivers/driver.ts";

/** The range of ports. It is below the kernel's range for outgoing connections, which conflict. */
const firstPort = 20_000;
const lastPort = 29_999;
/** How many ports of the range are tried before the kernel is asked for one. */
const triesMax = 200;

/** The ports assigned to replicas of this platform. */
export class PortPool {
  readonly #taken = new Set<number>();

  /** Marks a port of an adopted replica. */
  keep(port: number): void {
    this.#taken.add(port);
  }

  release(port: number): void {
    this.#taken.delete(port);
  }

  /** Returns `port` if it is free, else null. */
  async takeExactly(port: number): Promise<number | null> {
    if (this.#taken.has(port)) return null;
    // The port is taken before the check, so that no other call takes it meanwhile.
    this.#taken.add(port);
    if ((await listenOnce(port)) !== null) return port;
    this.#taken.delete(port);
    return null;
  }

  /** Returns some free port. Rejects with `StartRefused` when it finds none. */
  async take(): Promise<number> {
    for (let attempt = 0; attempt < triesMax; attempt++) {
      const port = await this.takeExactly(randomInt(firstPort, lastPort + 1));
      if (port !== null) return port;
    }
    // One app may occupy the whole range where networks are shared; ask the kernel for any other
    // free port.
    const other = await listenOnce(0);
    if (other !== null && (await this.takeExactly(other)) !== null) return other;
    throw new StartRefused(
      "No free port was found on the machine that runs replicas; stop apps that use many ports.",
    );
  }
}

/**
 * Returns `port` if a program can listen on it on every address now, else null. For 0 it returns a
 * free port that the kernel chooses.
 */
function listenOnce(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(null));
    server.listen({ port, host: "0.0.0.0", exclusive: true }, () => {
      const address = server.address();
      const freePort = typeof address === "object" && address !== null ? address.port : null;
      server.close(() => resolve(freePort));
    });
  });
}
