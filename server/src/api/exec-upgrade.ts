// WebSockets of the management API that run commands in replicas: such a request takes the same way
// through the API as any other, which checks the caller and answers refusals, and the route's
// handler then makes a WebSocket of its connection.
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

/** A megabyte: clients send input in pieces. */
const messageBytesMax = 1_048_576;
const path = /^\/+v2\/+projects\/+[^/]+\/+apps\/+[^/]+\/+containers\/+[^/]+\/+exec\/*$/;

const upgrades = new WeakMap<IncomingMessage, Upgrade & { readonly response: ServerResponse }>();
const server = new WebSocketServer({
  noServer: true,
  maxPayload: messageBytesMax,
  perMessageDeflate: false,
  clientTracking: false,
  handleProtocols: (offered) => (offered.has(execProtocol) ? execProtocol : false),
});

/** True when a WebSocket with this path and query runs a command. */
export function isExecSocket(url: string): boolean {
  return path.test(url.split("?", 1)[0] ?? "");
}

/** Hands the request to the API. Never throws. */
export function takeExecSocket(api: FastifyInstance, upgrade: Upgrade): void {
  const { request, socket } = upgrade;
  socket.on("error", () => undefined);
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Socket);
  response.once("finish", () => {
    // Nobody reads what the client still sends, so its end would not be seen.
    socket.once("finish", () => socket.destroy());
    socket.end();
  });
  takeToken(request);
  upgrades.set(request, { ...upgrade, response });
  api.routing(request, response);
}

/**
 * The subprotocols that a client offers on a connection that can become a WebSocket; null: it
 * cannot.
 */
export function offeredProtocols(request: IncomingMessage): readonly string[] | null {
  return upgrades.has(request) ? protocolsOf(request) : null;
}

/** Makes a WebSocket of the connection; null: it has broken, or the request is no WebSocket's. */
export function upgraded(request: IncomingMessage): Promise<WebSocket | null> {
  const upgrade = upgrades.get(request);
  if (upgrade === undefined) return Promise.resolve(null);
  const { socket, firstBytes, response } = upgrade;
  response.detachSocket(socket as Socket);
  return new Promise((resolve) => {
    socket.once("close", () => resolve(null));
    if (socket.destroyed) return resolve(null);
    server.handleUpgrade(request, socket, firstBytes, (client) => resolve(client));
    // It has refused a request without the fields of a WebSocket.
    if (socket.writableEnded) resolve(null);
  });
}

/** Pages cannot set the header field. */
function takeToken(request: IncomingMessage): void {
  if (request.headers.authorization !== undefined) return;
  const given = protocolsOf(request).find((one) => one.startsWith(bearerProtocol));
  if (given === undefined) return;
  const token = Buffer.from(given.slice(bearerProtocol.length), "base64url").toString("latin1");
  if (/^[\x21-\x7e]+$/.test(token)) request.headers.authorization = `Bearer ${token}`;
}

function protocolsOf({ headers }: IncomingMessage): readonly string[] {
  return (headers["sec-websocket-protocol"] ?? "").split(",").map((one) => one.trim());
}
