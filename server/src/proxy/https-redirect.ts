// Sends requests that came over plain HTTP to the encrypted port. A request that carries a token,
// or is meant to change something, is refused instead: it has already crossed the network in the
// clear, and nobody would correct a client that is redirected each time.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { isLoopback } from "#lib/client-address.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import { refuseUnfit } from "./malformed.ts";
import { originForm } from "./target.ts";

export type HttpsRedirectOptions = {
  /** The URL of the platform, without a slash at its end. */
  readonly publicUrl: string;
  readonly trustedProxies: TrustedProxies;
};

/** A host name or an IPv4 address, and perhaps a port. */
const hostForm = /^([\w.-]{1,253})(?::\d{1,5})?$/;

/** Answers requests of other machines that came over plain HTTP. */
export class HttpsRedirect {
  readonly #trustedProxies: TrustedProxies;
  readonly #publicHost: string;
  /** The port of the platform's URL with a colon before it; empty: the usual port of HTTPS. */
  readonly #port: string;

  constructor({ publicUrl, trustedProxies }: HttpsRedirectOptions) {
    const { hostname, port } = new URL(publicUrl);
    this.#trustedProxies = trustedProxies;
    this.#publicHost = hostname;
    this.#port = port === "" ? "" : `:${port}`;
  }

  /**
   * Whether the requests of the connection are answered here. Requests from this machine are not,
   * and neither are requests from a trusted proxy, which has its own encryption.
   */
  concerns(connection: Socket): boolean {
    const { peer, proxies, isEncrypted } = this.#trustedProxies
      .peerOf(connection)
      .originOf(undefined);
    return !isEncrypted && proxies === 0 && !isLoopback(peer);
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = "", headers, url = "/" } = request;
    // A client without a valid Host is sent to the host name of the platform's URL.
    const host = hostForm.exec(headers.host ?? "")?.[1] ?? this.#publicHost;
    const origin = `https://${host}${this.#port}`;
    const isRead = method === "GET" || method === "HEAD";
    if (isRead && headers.authorization === undefined) {
      // The connection is closed, since nobody reads the body that the request may have.
      const location = `${origin}${originForm(url)}`;
      response.writeHead(308, { location, "content-length": 0, connection: "close" });
      response.end();
      return;
    }
    const message = `Plain HTTP takes only pages here: send the request to ${origin}. What it contains, such as a token, was not encrypted on its way.`;
    refuseUnfit(response, { status: "403 Forbidden", message });
  }
}
