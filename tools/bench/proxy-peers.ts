// The servers of benchmarks of the proxy: an upstream, and proxies in front of it, with or without
// encryption.
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { benchPath } from "./bench-app.ts";
import { startServer, type ServerProcess } from "./harness/child.ts";
import { writePeerConfig, writeUpstreamConfig, type TlsFiles } from "./nginx-config.ts";

/** Upstream and load generator share one core; each proxy has the other one for itself. */
export const cores = { load: 0, proxy: 1 } as const;

/** Starts the servers, which run until the benchmark is over. */
export class ProxyPeers {
  readonly #t: TestContext;
  readonly #nginx: string;
  readonly #folder: string;
  #upstreamPort = 0;

  constructor(t: TestContext, nginx: string) {
    this.#t = t;
    this.#nginx = nginx;
    this.#folder = temporaryFolder(t, "proxy");
  }

  /** Call it first: proxies are started in front of it. */
  async startUpstream(): Promise<void> {
    const port = await freePort();
    const config = writeUpstreamConfig(this.#folder, port);
    await startServer(this.#t, [this.#nginx, "-c", config], { core: cores.load, port });
    this.#upstreamPort = port;
  }

  /** Our proxy; with files of a certificate, on its encrypted port. */
  startSlipway(tls: TlsFiles | null = null): Promise<ServerProcess> {
    return this.startScript("our-proxy", tls === null ? [] : [tls.certificateFile, tls.keyFile]);
  }

  /** A proxy that is a script of this folder, or of another one. */
  startScript(
    name: string,
    words: readonly string[] = [],
    folder = import.meta.dirname,
  ): Promise<ServerProcess> {
    const file = join(folder, `${name}.ts`);
    const command = [process.execPath, file, String(this.#upstreamPort), ...words] as const;
    return startServer(this.#t, command, { core: cores.proxy });
  }

  /** The same with nginx. */
  async startNginx(tls: TlsFiles | null = null): Promise<ServerProcess> {
    const port = await freePort();
    const prefix = benchPath.replace(/[^/]*$/, "");
    const ports = { port, upstreamPort: this.#upstreamPort };
    const config = writePeerConfig(this.#folder, ports, { prefix, tls });
    return startServer(this.#t, [this.#nginx, "-c", config], { core: cores.proxy, port });
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
