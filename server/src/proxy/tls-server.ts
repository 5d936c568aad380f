// Accepts encrypted connections, and agrees with each client on HTTP/2 or HTTP/1.1.
import { createServer, type SecureContext, type Server, type TLSSocket } from "node:tls";
import type { Certificates } from "./certificates.ts";
import type { ShownProofs } from "./managed-certificates.ts";

export type TlsServerParts = {
  readonly certificates: Certificates;
  /** What authorities that ask for `acme-tls/1` get; null: no names are proven here. */
  readonly proofs: ShownProofs | null;
  /** How long a client may take to agree on the encryption. */
  readonly handshakeMs: number;
  /** After this silence, the system probes whether the client's machine still answers. */
  readonly keepAliveProbeMs: number;
  readonly takeHttp1: (socket: TLSSocket) => void;
  readonly takeHttp2: (socket: TLSSocket) => void;
};

/** The protocol with which an authority asks for the proof of a name (RFC 8737). */
const proofProtocol = "acme-tls/1";
/** The protocols for clients, the best one first. */
const protocols: readonly string[] = ["h2", "http/1.1"];

/** Creates the server, which does not listen yet. New certificates count for new connections. */
export function createTlsServer(parts: TlsServerParts): Server {
  const { certificates, proofs, handshakeMs, keepAliveProbeMs, takeHttp1, takeHttp2 } = parts;
  /**
   * The proof that each connection of an authority gets. `SNICallback` needs it, since TLS 1.3
   * agrees on the protocol before the name is looked up.
   */
  const proving = new WeakMap<object, SecureContext>();
  const server = createServer({
    ...certificates.standard,
    // Node calls `ALPNCallback` and `SNICallback` with the socket as `this`.
    ALPNCallback(this: TLSSocket, { servername, protocols: offered }) {
      // For a client that names no host, `servername` is `false`, although the type says otherwise.
      const name = typeof (servername as unknown) === "string" ? servername : "";
      const proof = offered.includes(proofProtocol) ? (proofs?.tlsAnswer(name) ?? null) : null;
      if (proof === null) return protocols.find((protocol) => offered.includes(protocol));
      proving.set(this, proof);
      this.setKeyCert(proof);
      return proofProtocol;
    },
    handshakeTimeout: handshakeMs,
    SNICallback(this: TLSSocket, name, done) {
      done(null, proving.get(this) ?? certificates.contextFor(name));
    },
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveProbeMs,
  });
  certificates.onChange(() => server.setSecureContext(certificates.standard));
  server.on("secureConnection", (socket) => {
    if (socket.alpnProtocol === proofProtocol) socket.destroySoon();
    else if (socket.alpnProtocol === "h2") takeHttp2(socket);
    else takeHttp1(socket);
  });
  // A client that cannot agree is disconnected by the server; nobody else needs to know.
  server.on("tlsClientError", () => undefined);
  return server;
}
