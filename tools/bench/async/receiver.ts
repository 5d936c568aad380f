// The webhook receiver in the async run benchmark, in a separate process: counts requests by
// `webhook-id` and verifies nothing. GET returns the counts and GET /reset resets them.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { monotonicMs } from "./monotonic.ts";

/** The requests since the last reset; times in milliseconds of the machine's clock. */
export type Received = {
  readonly received: number;
  readonly different: number;
  readonly signed: number;
  readonly firstMs: number;
  readonly lastMs: number;
};

let ids = new Set<string>();
let received = 0;
let signed = 0;
let firstMs = 0;
let lastMs = 0;

const server = createServer((request, response) => {
  if (request.method === "GET") {
    if (request.url === "/reset") {
      ids = new Set();
      received = signed = firstMs = lastMs = 0;
    }
    const counts: Received = { received, different: ids.size, signed, firstMs, lastMs };
    response.end(JSON.stringify(counts));
    return;
  }
  lastMs = monotonicMs();
  firstMs ||= lastMs;
  received++;
  ids.add(String(request.headers["webhook-id"]));
  if (request.headers["webhook-signature"] !== undefined) signed++;
  request.resume();
  request.once("end", () => response.writeHead(204).end());
});
// If the receiver closed connections, that would be measured instead of the sender.
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () =>
  console.log(`listening ${(server.address() as AddressInfo).port}`),
);
process.once("SIGTERM", () => process.exit(0));
