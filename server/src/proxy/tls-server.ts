// Accepts encrypted connections, and agrees with each client on HTTP/2 or HTTP/1.1.
import { createServer, type Server, type TLSSocket } from "node:tls";
import type { Certificates } from "./certificates.ts";

export type TlsServerParts = {
  readonly certificates: Certificates;
  /** How long a client may take to agree on the encryption. */
  readonly handshakeMs: number;
  /** After this silence, the system probes whether the client's machine still answers. */
  readonly keepAliveProbeMs: number;
  readonly takeHttp1: (socket: TLSSocket) => void;
  readonly takeHttp2: (socket: TLSSocket) => void;
};

/** Creates the server, which does not listen yet. New certificates count for new connections. */
export function createTlsServer(parts: TlsServerParts): Server {
  const { certificates, handshakeMs, keepAliveProbeMs, takeHttp1, takeHttp2 } = parts;
  const server = createServer({
    ...certificates.standard,
    ALPNProtocols: ["h2", "http/1.1"],
    handshakeTimeout: handshakeMs,
    SNICallback: (name, done) => done(null, certificates.contextFor(name)),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveProbeMs,
  });
  certificates.onChange(() => server.setSecureContext(certificates.standard));
  server.on("secureConnection", (socket) => {
    if (socket.alpnProtocol === "h2") takeHttp2(socket);
    else takeHttp1(socket);
  });
  // A client that cannot agree is disconnected by the server; nobody else needs to know.
  server.on("tlsClientError", () => undefined);
  return server;
}
