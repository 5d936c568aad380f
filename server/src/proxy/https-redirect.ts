// Sends requests that came over plain HTTP to the encrypted port. A request that carries a token,
// or is to change something, is refused instead: it has already crossed the network in the clear,
// and a client that was redirected each time would never be corrected.
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

const hostForm = /^([\w.-]{1,253})(?::\d{1,5})?$/;

/** Answers requests of other machines that came over plain HTTP. */
export class HttpsRedirect {
  readonly #trustedProxies: TrustedProxies;
  readonly #publicHost: string;
  readonly #port: string;

  constructor({ publicUrl, trustedProxies }: HttpsRedirectOptions) {
    const { hostname, port } = new URL(publicUrl);
    this.#trustedProxies = trustedProxies;
    this.#publicHost = hostname;
    this.#port = port === "" ? "" : `:${port}`;
  }

  /**
   * Whether the requests of the connection are answered here. This machine is not concerned, nor is
   * a trusted proxy, which has its own encryption.
   */
  concerns(connection: Socket): boolean {
    const { peer, proxies, isEncrypted } = this.#trustedProxies
      .peerOf(connection)
      .originOf(undefined);
    return !isEncrypted && proxies === 0 && !isLoopback(peer);
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = "", headers, url = "/" } = request;
    const host = hostForm.exec(headers.host ?? "")?.[1] ?? this.#publicHost;
    const origin = `https://${host}${this.#port}`;
    const isRead = method === "GET" || method === "HEAD";
    if (isRead && headers.authorization === undefined) {
      // Closed, so that nothing waits for a body, which nobody reads.
      const location = `${origin}${originForm(url)}`;
      response.writeHead(308, { location, "content-length": 0, connection: "close" });
      response.end();
      return;
    }
    const message = `Plain HTTP takes only pages here: send the request to ${origin}. What it contains, such as a token, was not encrypted on its way.`;
    refuseUnfit(response, { status: "403 Forbidden", message });
  }
}
