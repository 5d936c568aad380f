// A webhook receiver on loopback that records requests and answers as configured.
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { WithAfter } from "./clean-last.ts";
import { type FixedAddress, listenAt } from "./fixed-address.ts";

/** One request that came. */
export type Received = {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
};

export type WebhookReceiver = {
  readonly url: string;
  readonly received: readonly Received[];
  /** The number of requests per `webhook-id`. */
  readonly counts: ReadonlyMap<string, number>;
};

/**
 * Starts one; `statusOf` decides each answer (default 200). `at`: default any free port. Stopped
 * after the test.
 */
export async function startReceiver(
  t: WithAfter,
  statusOf: (request: Received) => number | Promise<number> = () => 200,
  at?: FixedAddress,
): Promise<WebhookReceiver> {
  const received: Received[] = [];
  const counts = new Map<string, number>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = {
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks),
      };
      const id = String(one.headers["webhook-id"]);
      received.push(one);
      counts.set(id, (counts.get(id) ?? 0) + 1);
      void Promise.resolve(statusOf(one)).then((status) => response.writeHead(status).end());
    });
  });
  const { host, port } = await listenAt(server, at);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://${host}:${port}/hook`, received, counts };
}
