// A peer of the proxy benchmark: the npm package http-proxy with kept-alive connections. Argument:
// the upstream's port.
import { Agent, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";

/** The used part of the package, which has no types. */
type HttpProxy = {
  createProxyServer(options: { target: string; xfwd: boolean; agent: Agent }): {
    web(request: IncomingMessage, response: ServerResponse): void;
    on(
      event: "error",
      take: (error: Error, request: IncomingMessage, response: ServerResponse) => void,
    ): void;
  };
};

const httpProxy = createRequire(import.meta.url)("http-proxy") as HttpProxy;

const target = `http://127.0.0.1:${process.argv[2]}`;
const proxy = httpProxy.createProxyServer({
  target,
  xfwd: true,
  agent: new Agent({ keepAlive: true, maxSockets: 256 }),
});
proxy.on("error", (_error, _request, response) => response.end());
const server = createServer((request, response) => proxy.web(request, response));
server.listen(0, "127.0.0.1", () =>
  console.log(`listening ${(server.address() as AddressInfo).port}`),
);
process.once("SIGTERM", () => process.exit(0));
