// WebSockets of the management API, which run commands in replicas. Their requests pass through the
// API like all others, so that the caller is checked and refusals are answered. Then the handler of
// the route turns the connection into a WebSocket.
import { ServerResponse, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { FastifyInstance } from "fastify";
import { WebSocketServer, type WebSocket } from "ws";
import { bearerProtocol, execProtocol } from "@slipway/contract/exec-routes.ts";

type Upgrade = {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly firstBytes: Buffer;
};

/** The maximum size of a message: a megabyte is enough, since clients send input in pieces. */
const messageBytesMax = 1_048_576;
/** The path of the route; several slashes in a row count as one, as in the API. */
const path = /^\/+v2\/+projects\/+[^/]+\/+apps\/+[^/]+\/+containers\/+[^/]+\/+exec\/*$/;

/** The requests whose connections can become WebSockets, with the responses that refuse them. */
const upgrades = new WeakMap<IncomingMessage, Upgrade & { readonly response: ServerResponse }>();
const server = new WebSocketServer({
  noServer: true,
  maxPayload: messageBytesMax,
  perMessageDeflate: false,
  clientTracking: false,
  handleProtocols: (offered) => (offered.has(execProtocol) ? execProtocol : false),
});

/** True when a WebSocket request with this path and query is for a command in a replica. */
export function isExecSocket(url: string): boolean {
  return path.test(url.split("?", 1)[0] ?? "");
}

/** Hands the request to the API. Never throws. */
export function takeExecSocket(api: FastifyInstance, upgrade: Upgrade): void {
  const { request, socket } = upgrade;
  // An error needs no handling: the connection closes after it.
  socket.on("error", () => undefined);
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Socket);
  response.once("finish", () => {
    // The socket must be destroyed: nobody reads from it any more, so nobody would notice when the
    // client closes the connection.
    socket.once("finish", () => socket.destroy());
    socket.end();
  });
  takeToken(request);
  upgrades.set(request, { ...upgrade, response });
  api.routing(request, response);
}

/**
 * The subprotocols that a client offers; null: the connection of the request cannot become a
 * WebSocket.
 */
export function offeredProtocols(request: IncomingMessage): readonly string[] | null {
  return upgrades.has(request) ? protocolsOf(request) : null;
}

/**
 * Turns the connection into a WebSocket. Null: the connection is broken, or the request does not
 * ask for a WebSocket.
 */
export function upgraded(request: IncomingMessage): Promise<WebSocket | null> {
  const upgrade = upgrades.get(request);
  if (upgrade === undefined) return Promise.resolve(null);
  const { socket, firstBytes, response } = upgrade;
  response.detachSocket(socket as Socket);
  // Only the first call of `resolve` counts.
  return new Promise((resolve) => {
    socket.once("close", () => resolve(null));
    if (socket.destroyed) return resolve(null);
    server.handleUpgrade(request, socket, firstBytes, (client) => resolve(client));
    // `handleUpgrade` ends the connection of a request without the fields of a WebSocket.
    if (socket.writableEnded) resolve(null);
  });
}

/** Reads the token from a subprotocol, since a page in a browser cannot set header fields. */
function takeToken(request: IncomingMessage): void {
  if (request.headers.authorization !== undefined) return;
  const protocol = protocolsOf(request).find((offered) => offered.startsWith(bearerProtocol));
  if (protocol === undefined) return;
  const token = Buffer.from(protocol.slice(bearerProtocol.length), "base64url").toString("latin1");
  if (/^[\x21-\x7e]+$/.test(token)) request.headers.authorization = `Bearer ${token}`;
}

function protocolsOf({ headers }: IncomingMessage): readonly string[] {
  const protocols = headers["sec-websocket-protocol"] ?? "";
  return protocols.split(",").map((protocol) => protocol.trim());
}
