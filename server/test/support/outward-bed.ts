// Receivers and a client for tests of outbound requests: real sockets on loopback, host names that
// resolve as a test says.
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { systemClock } from "#lib/clock.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import {
  OutwardClient,
  type OutwardClientOptions,
  type OutwardPost,
} from "#lib/outward-request.ts";
import { cleanLast, type WithAfter } from "./clean-last.ts";

/** A receiver; `sockets` are the open connections, `connections` counts all so far. */
export type Receiver = {
  readonly port: number;
  readonly sockets: Set<Socket>;
  connections: number;
};

/** Listens on a free port of 127.0.0.1 until the test ends. */
export async function receiver(t: WithAfter, server: Server): Promise<Receiver> {
  const sockets = new Set<Socket>();
  const made: Receiver = { port: 0, sockets, connections: 0 };
  server.on("connection", (socket: Socket) => {
    made.connections++;
    sockets.add(socket);
    // Tests break connections on purpose.
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanLast(t, () => {
    for (const socket of sockets) socket.destroy();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return Object.assign(made, { port: (server.address() as AddressInfo).port });
}

/** An HTTP receiver. */
export function httpReceiver(t: WithAfter, listener: RequestListener): Promise<Receiver> {
  // It never closes idle connections, however slow the test is.
  return receiver(t, createHttpServer({ keepAliveTimeout: 0 }, listener));
}

/** Called with the first bytes of each request; may write any answer. */
export function rawReceiver(
  t: WithAfter,
  onRequest: (socket: Socket, requests: number) => void,
): Promise<Receiver> {
  let requests = 0;
  return receiver(
    t,
    createServer((socket) => void socket.on("data", () => onRequest(socket, ++requests))),
  );
}

/**
 * A client that may connect only to 127.0.0.1; names resolve to it unless `lookup` says otherwise.
 * Closed after the test.
 */
export function outwardClient(
  t: WithAfter,
  options: Partial<OutwardClientOptions> = {},
): OutwardClient {
  const client = new OutwardClient({
    guard: new OutwardGuard({ allow: ["127.0.0.1"] }),
    clock: systemClock,
    userAgent: "Slipway-Test",
    lookup: () => Promise.resolve(["127.0.0.1"]),
    ...options,
  });
  cleanLast(t, () => client.close());
  return client;
}

/** A small POST with a generous deadline. */
export function smallPost(changes: Partial<OutwardPost> = {}): OutwardPost {
  return {
    headers: {},
    body: Buffer.from("hello"),
    timeoutMs: 20_000,
    answerBytesMax: 1_024,
    ...changes,
  };
}
