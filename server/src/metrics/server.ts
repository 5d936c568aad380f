// The listener of `/metrics`, separate from the platform's main listener. It answers nothing else,
// and makes only one text at a time, which all clients that ask meanwhile share.
import { isSameText } from "#lib/same-text.ts";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Log } from "#lib/log.ts";
import { isAddressOrLocalhost } from "#lib/nameless-host.ts";
import type { Secret } from "#lib/secret.ts";
import type { Metrics } from "./registry.ts";

export type MetricsServerOptions = {
  readonly host: string;
  readonly port: number;
  /**
   * The token that clients send as `Authorization: Bearer …`. Null: everybody who reaches the
   * address may read, if they use an IP address or localhost.
   */
  readonly token: Secret | null;
  readonly metrics: Pick<Metrics, "text" | "contentType">;
  readonly log: Log;
};

/** More than the number of concurrent scrapers. */
const connectionsMax = 32;
/** How long a request may take to arrive. */
const slowMs = 10_000;
/** How long a connection may be silent, as when a client reads nothing. */
const silentMs = 30_000;

/** Listens. Rejects when the address is not available. */
export async function serveMetrics(options: MetricsServerOptions): Promise<{
  readonly address: { readonly host: string; readonly port: number };
  readonly close: () => Promise<void>;
}> {
  const answer = answerer(options);
  const server = createServer(
    { headersTimeout: slowMs, requestTimeout: slowMs },
    (request, response) => {
      void answer(request, response);
    },
  );
  server.maxConnections = connectionsMax;
  server.setTimeout(silentMs);
  server.listen(options.port, options.host);
  await once(server, "listening");
  const { address, port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  };
  return { address: { host: address, port }, close };
}

const nameRefused =
  "Without a token, ask at an IP address or localhost: a web page can let any other name lead here. To use another name, set SLIPWAY_METRICS_TOKEN.\n";

/**
 * True if a request with this `Host` cannot come from a script of a foreign web page: such a page
 * can have its own name lead to this machine, but not an IP address or localhost. A client that
 * sends no host is no browser.
 */
function isSafeHost(host: string | undefined): boolean {
  if (host === undefined) return true;
  return isAddressOrLocalhost(host.replace(/:\d*$/, ""));
}

function answerer({ token, metrics, log }: MetricsServerOptions) {
  const expected = token === null ? null : `Bearer ${token.reveal()}`;
  let making: Promise<string> | undefined;
  const sharedText = (): Promise<string> => {
    making ??= metrics.text().finally(() => {
      making = undefined;
    });
    return making;
  };
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const say = (
      status: number,
      text: string,
      fields: Readonly<Record<string, string>> = {},
    ): void => {
      response
        .writeHead(status, { "content-type": "text/plain; charset=utf-8", ...fields })
        .end(text);
    };
    if (request.url?.split("?")[0] !== "/metrics")
      return say(404, "Only /metrics is served here.\n");
    if (request.method !== "GET" && request.method !== "HEAD")
      return say(405, "Use GET.\n", { allow: "GET, HEAD" });
    if (expected !== null && !isSameText(request.headers.authorization ?? "", expected)) {
      return say(401, "Send SLIPWAY_METRICS_TOKEN as a bearer token.\n", {
        "www-authenticate": "Bearer",
      });
    }
    if (expected === null && !isSafeHost(request.headers.host)) return say(403, nameRefused);
    try {
      say(200, await sharedText(), { "content-type": metrics.contentType });
    } catch (error) {
      log.error({ err: error }, "metrics could not be read");
      say(500, "The metrics could not be read; the platform's log says why.\n");
    }
  };
}
