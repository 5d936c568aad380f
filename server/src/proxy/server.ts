// The platform's only HTTP listener, on a plain port and, with certificates, on an encrypted one.
// It hands calls of apps to the proxy and everything else to a fallback, without a router in
// between. Its limits keep strangers from holding connections open.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Server as SocketServer, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { must } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import { newRunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import { AnnouncedClients } from "./announced-clients.ts";
import { stopping } from "./call-faults.ts";
import type { Certificates } from "./certificates.ts";
import type { HttpClient } from "./client.ts";
import { Deadlines } from "./deadlines.ts";
import { Http2Connections, type ReadCall } from "./http2-server.ts";
import type { HttpsRedirect } from "./https-redirect.ts";
import { drainListener, Shutdown, type HoldBack } from "./listener-drain.ts";
import type { ShownProofs } from "./managed-certificates.ts";
import {
  headBytesMax,
  OpenAnswers,
  refuseUnfit,
  tunnel,
  unfitness,
  unmetExpectation,
} from "./malformed.ts";
import { PlainConnection, type PlainParts } from "./plain-connection.ts";
import type { PlainRequest } from "./plain-request.ts";
import { sendRefusal } from "./refusal.ts";
import { closeStalled, SlowBodies } from "./slow-clients.ts";
import { isCallPath, originForm } from "./target.ts";
import { createTlsServer } from "./tls-server.ts";

type TakeRequest = (request: IncomingMessage, response: ServerResponse) => void;
type TakeUpgrade = (request: IncomingMessage, socket: Duplex, firstBytes: Buffer) => void;

/** Takes WebSocket requests that are for no app. */
export type FallbackUpgrade = {
  /** Whether `take` takes a request for this URL. */
  readonly takes: (url: string) => boolean;
  readonly take: TakeUpgrade;
};

export type ListenerParts = {
  /** Whether a host name belongs to one app, which then gets every path. */
  readonly isAppHost: (host: string | undefined) => boolean;
  /** Handles each request for an app: below `/v4/`, or on an app's host. */
  readonly handle: TakeRequest;
  /** Handles each plain call, which needs only a socket; if absent, `handle` gets plain calls. */
  readonly handlePlain?: (client: PlainConnection, request: PlainRequest) => void;
  /** Handles each WebSocket request for an app. */
  readonly upgrade: TakeUpgrade;
  /** Handles other WebSocket requests. */
  readonly fallbackUpgrade: FallbackUpgrade;
  /** Handles every other request. */
  readonly fallback: TakeRequest;
  /** Proofs for an authority that decides about a certificate; null or absent: there are none. */
  readonly proofs?: ShownProofs | null;
  /** The encrypted port; absent: there is none. */
  readonly tls?: TlsListenerParts;
  readonly trustedProxies: TrustedProxies;
  /**
   * Connections of trusted proxies begin with a header of the PROXY protocol; `log` gets a warning
   * about connections that do not. Absent: connections have no such header.
   */
  readonly announcements?: { readonly log: Log };
  readonly clock: Clock;
  /** Overrides of the default timeouts. */
  readonly times?: Partial<ListenerTimes>;
};

export type TlsListenerParts = {
  readonly certificates: Certificates;
  /** Handles each call of an app that came over HTTP/2. */
  readonly handleRead: (client: HttpClient, call: ReadCall) => void;
  /** Says which plain connections are sent to the encrypted port; null: none. */
  readonly redirect: HttpsRedirect | null;
};

/** Timeouts for clients, in milliseconds. */
export type ListenerTimes = {
  /** How long a whole head may take. Bodies of calls are limited by the deadlines of the calls. */
  readonly headMs: number;
  /**
   * How long a body, and each further MiB of it, may take if its request is no call, or is a call
   * that is already answered.
   */
  readonly bodyMs: number;
  /** How long a client may read nothing of its answer. */
  readonly stalledMs: number;
  /**
   * How long a client may be silent after an answer. This is longer than common clients and load
   * balancers keep idle connections.
   */
  readonly keepAliveMs: number;
};

/**
 * An address, or the descriptor of a listening socket that other processes keep open, and that the
 * next platform inherits.
 */
export type ListenAt =
  | { readonly host: string; readonly port: number }
  | { readonly descriptor: number };

/** An HTTP listener. */
export type Listener = {
  readonly server: Server;
  /** True when another process keeps the socket open, from which the next platform accepts. */
  isShared: boolean;
  /** Makes new connections wait where the socket is not shared; null: they are refused. */
  holdBack: HoldBack | null;
  /** Resolves with the address; port 0 picks a free one. Rejects when it cannot listen. */
  listen(at: ListenAt): Promise<AddressInfo>;
  /** Like `listen`, for the encrypted port, which the listener must have. */
  listenTls(at: ListenAt): Promise<AddressInfo>;
  /**
   * Lets running requests end for up to `drainMs`, then closes their connections. Requests on new
   * connections are answered 503. On a shared socket, or with `holdBack`, nothing is refused: new
   * connections are served for a while, and later ones wait for the next platform.
   */
  drain(options: { readonly drainMs: number }): Promise<void>;
  /** Stops accepting connections and closes all open ones. */
  close(): Promise<void>;
};

const defaultTimes: ListenerTimes = {
  headMs: 30_000,
  bodyMs: 60_000,
  stalledMs: 60_000,
  keepAliveMs: 75_000,
};
/** How often Node's server looks for heads that are late. */
const headCheckMs = 5_000;
/** After this silence, the system probes whether the client's machine still answers. */
const keepAliveProbeMs = 60_000;
/** Further connections are closed at once. An idle one uses about 20 kB, all about 400 MB. */
const connectionsMax = 20_000;
/**
 * How many connections may wait until they are accepted. The system has a lower limit of its own
 * (`net.core.somaxconn`, usually 4096), which is the one that counts.
 */
const backlog = 65_535;

/** Creates the listener; `listen` and `listenTls` start it. */
export function createListener(parts: ListenerParts): Listener {
  const { clock } = parts;
  const times = { ...defaultTimes, ...parts.times };
  const shutdown = new Shutdown();
  // An upgrade request that fails this condition is answered as an ordinary request.
  const server = createNodeServer(
    times,
    (request) =>
      isWebSocket(request) &&
      upgradeHandlerOf(parts, request) !== null &&
      !isRedirected(parts, request.socket) &&
      !shutdown.refuses(request.socket),
  );
  const open = new Set<Duplex>();
  const answers = new OpenAnswers();
  closeStalled(server, answers, times.stalledMs);
  const deadlines = new Deadlines(clock);
  takeRequests(server, parts, { answers, deadlines, shutdown, bodyMs: times.bodyMs });
  server.on("upgrade", (request, socket, firstBytes) =>
    upgradeHandlerOf(parts, request)?.(request, socket, firstBytes),
  );
  server.on("connect", (_request, socket) => answers.refuse(tunnel(), socket));
  server.on("clientError", (error, socket) => answers.refuse(error, socket));
  const announced = announcedClients(parts, deadlines, times);
  const setup = { ...parts, times, deadlines, shutdown, announced };
  const { plain, serveHttp1 } = takePlain(server, setup);
  announced?.readFirst(server);
  keepOpenConnections(server, open);
  const tls = parts.tls === undefined ? null : takeTls(server, setup, { serveHttp1, open });
  const listener: Listener = {
    server,
    isShared: false,
    holdBack: null,
    listen: (at) => {
      listener.isShared = "descriptor" in at;
      return listen(server, at);
    },
    listenTls: (at) => listen(must(tls, "the listener has certificates").server, at),
    drain: ({ drainMs }) =>
      drainListener(
        { server, open, plain, announced, answers, tls, shutdown, clock },
        { drainMs, isShared: listener.isShared, holdBack: listener.holdBack },
      ),
    close: async () => {
      const servers = tls === null ? [server] : [server, tls.server];
      await Promise.all(servers.map((one) => close(one, open)));
    },
  };
  return listener;
}

/** Creates Node's server with the limits of heads and connections. */
function createNodeServer(
  { headMs, keepAliveMs }: ListenerTimes,
  shouldUpgradeCallback: (request: IncomingMessage) => boolean,
): Server {
  const server = createServer({
    headersTimeout: headMs,
    connectionsCheckingInterval: Math.min(headCheckMs, headMs),
    // Node's limit on the total time of a request is off: `SlowBodies` limits bodies instead.
    requestTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    maxHeaderSize: headBytesMax,
    noDelay: true,
    // TCP probes find out that a client's machine is gone: its call must not stay in a call line.
    keepAlive: true,
    keepAliveInitialDelay: keepAliveProbeMs,
    // A request without a body has an ended stream from the start, which nobody needs to read.
    optimizeEmptyRequests: true,
    insecureHTTPParser: false,
    // `unfitness` refuses requests without a Host, since Node's own refusal gives no reason.
    requireHostHeader: false,
    shouldUpgradeCallback,
  });
  // The byte limit already bounds the fields; a limit on their number would silently drop some.
  server.maxHeadersCount = 0;
  server.maxConnections = connectionsMax;
  return server;
}

type RequestSetup = {
  readonly answers: OpenAnswers;
  readonly deadlines: Deadlines;
  readonly shutdown: Shutdown;
  readonly bodyMs: number;
};

/** Hands each request to the proxy or to the fallback, unless it must be refused. */
function takeRequests(server: Server, parts: ListenerParts, setup: RequestSetup): void {
  const { handle, fallback, clock } = parts;
  const { answers, deadlines, shutdown, bodyMs } = setup;
  const bodies = new SlowBodies({
    answers,
    deadlines,
    monotonicMs: () => clock.monotonicMs(),
    bodyMs,
  });
  const serve: TakeRequest = (request, response) => {
    if (shutdown.hasBegun) response.shouldKeepAlive = false;
    answers.add(response);
    if (shutdown.refuses(request.socket)) {
      return sendRefusal(response, stopping(), newRunId(), {
        deadlines,
        nowMs: clock.monotonicMs(),
      });
    }
    const unfit = unfitness(request);
    if (unfit !== null) return refuseUnfit(response, unfit);
    // An authority asks on the plain port, before there is a certificate for the encrypted one.
    const proof = parts.proofs?.httpAnswer(request.url ?? "") ?? null;
    if (proof !== null) return answerProof(response, proof);
    const { redirect = null } = parts.tls ?? {};
    if (redirect?.concerns(request.socket) === true) return redirect.answer(request, response);
    const isForApp = isCall(parts, request);
    bodies.watch(request, response, isForApp);
    if (isForApp) handle(request, response);
    else fallback(request, response);
  };
  server.on("request", serve);
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    // For a call, the app decides whether it wants the body, so nothing is written here.
    if (!isCall(parts, request) && !shutdown.refuses(request.socket) && unfitness(request) === null)
      response.writeContinue();
    serve(request, response);
  });
  server.on("checkExpectation", (_request: IncomingMessage, response: ServerResponse) => {
    answers.add(response);
    refuseUnfit(response, unmetExpectation);
  });
}

/** Answers with the proof, as RFC 8555, 8.3 says. */
function answerProof(response: ServerResponse, proof: string): void {
  response.writeHead(200, {
    "content-type": "application/octet-stream",
    "content-length": Buffer.byteLength(proof),
  });
  response.end(proof);
}

/** Makes the reader of PROXY headers; null: connections do not begin with such a header. */
function announcedClients(
  { announcements, trustedProxies, clock }: ListenerParts,
  deadlines: Deadlines,
  { headMs }: ListenerTimes,
): AnnouncedClients | null {
  if (announcements === undefined) return null;
  const { log } = announcements;
  return new AnnouncedClients({ trustedProxies, deadlines, clock, log, headerMs: headMs });
}

/** Keeps all open connections in `open`: Node knows neither WebSockets nor plain connections. */
function keepOpenConnections(server: SocketServer, open: Set<Duplex>): void {
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
}

type PlainSetup = ListenerParts & {
  readonly times: ListenerTimes;
  readonly deadlines: Deadlines;
  readonly shutdown: Shutdown;
  readonly announced: AnnouncedClients | null;
};

type Taken = {
  /** Always holds the connections that are still plain. */
  readonly plain: ReadonlySet<PlainConnection>;
  /** Makes Node's server read the connection. */
  readonly serveHttp1: (connection: Duplex) => void;
};

/**
 * Makes each new connection a plain one, unless it is redirected. While the listener drains, a new
 * connection refuses calls, unless new connections can wait for the next platform.
 */
function takePlain(server: Server, setup: PlainSetup): Taken {
  const { handlePlain, trustedProxies, clock, deadlines, times, shutdown } = setup;
  const plain = new Set<PlainConnection>();
  // Node's own handler of new connections, which makes its HTTP server read them. It is the first
  // one, since the server adds it when it is created.
  const [attach] = server.listeners("connection");
  const serveHttp1 = (connection: Duplex): void => void attach?.call(server, connection);
  if (handlePlain === undefined || attach === undefined) return { plain, serveHttp1 };
  server.off("connection", attach as (socket: Socket) => void);
  const parts: PlainParts = {
    deadlines,
    monotonicMs: () => clock.monotonicMs(),
    dateLine: dateLiner(clock),
    take: handlePlain,
    trustedProxies,
    handOver: (connection, socket, bytes) => {
      plain.delete(connection);
      serveHttp1(socket);
      // Node's server now reads these bytes as if they had just arrived.
      socket.unshift(bytes);
      socket.resume();
    },
    onClose: (connection) => plain.delete(connection),
    firstMs: times.headMs,
    idleMs: times.keepAliveMs,
    stalledMs: times.stalledMs,
  };
  // New connections start as plain ones even while the listener drains, so that silent ones are
  // closed.
  const refusing: PlainParts = {
    ...parts,
    take(client) {
      client.isClosing = true;
      client.refuse(stopping(), newRunId());
    },
  };
  server.on("connection", (socket: Socket) => {
    if (isRedirected(setup, socket)) return serveHttp1(socket);
    const connection = new PlainConnection(socket, shutdown.remaining === null ? parts : refusing);
    connection.isClosing = shutdown.hasBegun;
    plain.add(connection);
  });
  return { plain, serveHttp1 };
}

/** Whether all requests of the connection are sent to the encrypted port. */
function isRedirected({ tls }: ListenerParts, connection: Socket): boolean {
  return tls?.redirect?.concerns(connection) === true;
}

type TlsSetup = Pick<Taken, "serveHttp1"> & { readonly open: Set<Duplex> };

/** Opens the encrypted port: what is decrypted is read as on the plain port, or as HTTP/2. */
function takeTls(server: Server, setup: PlainSetup, { serveHttp1, open }: TlsSetup) {
  const { tls, trustedProxies, clock, deadlines, times, shutdown, announced } = setup;
  const { certificates, handleRead } = must(tls, "the listener has certificates");
  const http2 = new Http2Connections({
    isCall: (url, host) => isCallTo(setup, url, host),
    handle: handleRead,
    serveHttp1,
    refuses: (connection) => shutdown.refuses(connection),
    trustedProxies,
    deadlines,
    monotonicMs: () => clock.monotonicMs(),
    firstMs: times.headMs,
    idleMs: times.keepAliveMs,
    stalledMs: times.stalledMs,
  });
  const tlsServer = createTlsServer({
    certificates,
    proofs: setup.proofs ?? null,
    handshakeMs: times.headMs,
    keepAliveProbeMs,
    takeHttp1: (socket) => {
      announced?.name(socket);
      server.emit("connection", socket);
    },
    takeHttp2: (socket) => {
      announced?.name(socket);
      http2.take(socket);
    },
  });
  tlsServer.maxConnections = connectionsMax;
  announced?.readFirstOfTls(tlsServer);
  keepOpenConnections(tlsServer, open);
  return { server: tlsServer, http2 };
}

/** Returns a function that gives the current `Date` line, which is made at most once a second. */
function dateLiner(clock: Clock): () => string {
  let second = -1;
  let line = "";
  return () => {
    const now = Math.floor(clock.now() / 1000);
    if (now !== second) {
      second = now;
      line = `Date: ${new Date(now * 1000).toUTCString()}\r\n`;
    }
    return line;
  };
}

function isCall(parts: ListenerParts, request: IncomingMessage): boolean {
  return isCallTo(parts, request.url ?? "/", request.headers.host);
}

function isCallTo({ isAppHost }: ListenerParts, url: string, host: string | undefined): boolean {
  return url.startsWith("/v4/") || isCallPath(originForm(url)) || isAppHost(host);
}

/** The handler of a request for a WebSocket; null: there is none. */
function upgradeHandlerOf(parts: ListenerParts, request: IncomingMessage): TakeUpgrade | null {
  const { upgrade, fallbackUpgrade } = parts;
  if (isCall(parts, request)) return upgrade;
  return fallbackUpgrade.takes(request.url ?? "/") ? fallbackUpgrade.take : null;
}

/**
 * Whether the request asks for a WebSocket. A request to upgrade to anything else is answered as if
 * it did not ask for that (RFC 9110, 7.8).
 */
function isWebSocket(request: IncomingMessage): boolean {
  const asksForWebSocket = request.headers.upgrade?.toLowerCase() === "websocket";
  return asksForWebSocket && request.method === "GET" && unfitness(request) === null;
}

function listen(server: SocketServer, at: ListenAt): Promise<AddressInfo> {
  const target = "descriptor" in at ? { fd: at.descriptor } : at;
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...target, backlog }, () => {
      server.off("error", reject);
      resolve(server.address() as AddressInfo);
    });
  });
}

async function close(server: SocketServer, open: ReadonlySet<Duplex>): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    // The server calls back also when it no longer listens.
    server.close(() => resolve());
  });
  for (const socket of open) socket.destroy();
  await closed;
}
