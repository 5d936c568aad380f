// The proxy and its listener on a real port. The test controls the tables that the proxy reads.
// Replicas are real servers: node's own for well-behaved ones, plain sockets for all others.
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import {
  connect,
  createServer as createSocketServer,
  type AddressInfo,
  type Server,
  type Socket,
} from "node:net";
import type { TestContext } from "node:test";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Caller } from "#accounts/caller.ts";
import type { AppRoute } from "#apps/routes.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import {
  appIdOf,
  type AppId,
  type BuildId,
  type ProjectId,
  type ReleaseId,
  type ReplicaId,
  type TokenId,
} from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import type { FinishedCall } from "#proxy/finished-call.ts";
import type { ProxyOptions } from "#proxy/proxy-options.ts";
import { Proxy } from "#proxy/proxy.ts";
import {
  createListener,
  type Listener,
  type ListenerParts,
  type ListenerTimes,
  type TlsListenerParts,
} from "#proxy/server.ts";
import { ReplicaView, type ReadyReplica } from "#scheduler/replica-view.ts";
import { noOtherSockets, proxyAlone } from "./proxy-alone.ts";
import { settingsWith } from "./app-settings.ts";
import { until } from "./until.ts";
import { tcpAddress } from "./replica-address.ts";
import { firstRoute } from "./first-route.ts";

/** The project of the fixture's app. */
export const projectId = "p-00000001" as ProjectId;
/** A token of that project, of another one, of an operator; any other token is invalid. */
export const bedTokens = {
  project: "good.project.token",
  foreign: "good.foreign.token",
  operator: "good.operator.token",
};

/** A proxy that listens. */
export type ProxyBed = {
  readonly port: number;
  /** The encrypted port; 0 without `tls`. */
  readonly tlsPort: number;
  readonly proxy: Proxy;
  readonly listener: Listener;
  readonly view: ReplicaView;
  readonly appId: AppId;
  /** Apps for which the scheduler was nudged. */
  readonly nudged: AppId[];
  readonly finished: FinishedCall[];
  /** Makes these ports the app's ready replicas. */
  setReplicas(...ports: number[]): void;
  /** Changes the app's route. */
  setRoute(changes: Partial<AppRoute>): void;
  /** Calls the app with the project's token. */
  call(path: string, init?: RequestInit): Promise<Response>;
  /** A client connection that sends exactly what it is given. */
  connect(): Promise<RawClient>;
};

export type BedOptions = {
  readonly settings?: Partial<AppSettings>;
  readonly route?: Partial<AppRoute>;
  /** The limit of concurrent calls. */
  readonly clock?: Clock;
  /** The limit of connections. */
  readonly listenerClock?: Clock;
  readonly limits?: Partial<ProxyOptions["limits"]>;
  readonly options?: Partial<Omit<ProxyOptions, "trustedProxies">>;
  /**
   * Whether plain calls are read on the socket itself, as in the platform, or all by node's server.
   */
  readonly takesPlain?: boolean;
  readonly trustedProxies?: readonly string[];
  /** Lets connections of trusted proxies begin with a header. */
  readonly announcements?: ListenerParts["announcements"];
  readonly times?: Partial<ListenerTimes>;
  /** Opens an encrypted port with these certificates. */
  readonly tls?: Omit<TlsListenerParts, "handleRead">;
  /** Handles requests that are not calls. */
  readonly fallback?: RequestListener;
};

/** Opens a fixture with the app `hello`, which by default takes two calls per replica. */
export async function openProxyBed(t: TestContext, bed: BedOptions = {}): Promise<ProxyBed> {
  const { clock = systemClock, takesPlain = true } = bed;
  const settings = settingsWith({ name: "hello", replicaConcurrency: 2, ...bed.settings });
  const releaseId = "00000000-0000-4000-8000-000000000001" as ReleaseId;
  const buildId = "00000000-0000-4000-8000-000000000002" as BuildId;
  const appId = appIdOf(projectId, "hello");
  let route: AppRoute = {
    ...firstRoute,
    appId,
    projectId,
    appName: "hello",
    disableAuth: false,
    live: { releaseId, buildId, settings },
    latestBuild: { status: "success", reason: null },
    ...bed.route,
  };
  const view = new ReplicaView();
  const nudged: AppId[] = [];
  const finished: FinishedCall[] = [];
  const trustedProxies = new TrustedProxies(bed.trustedProxies ?? []);
  const proxy = new Proxy({
    ...proxyAlone,
    routes: {
      find: (project, name) => (project === projectId && name === "hello" ? route : undefined),
      byAppId: (id) => (id === appId ? route : undefined),
      refresh: () => Promise.resolve(),
    },
    tokens: {
      cached: (token) => (token.startsWith("late.") ? undefined : bedCaller(token)),
      check: lateCaller,
    },
    view,
    trustedProxies,
    nudge: (app) => nudged.push(app),
    limits: { lineLengthMax: 10, bodyBytesMax: 10_000_000, ...bed.limits },
    log: silentLog,
    clock,
    onFinished: (call) => finished.push(call),
    ...bed.options,
  });
  const listener = createListener({
    fallbackUpgrade: noOtherSockets,
    isAppHost: (host) => proxy.admission.isAppHost(host),
    handle: (request, response) => proxy.handle(request, response),
    ...(takesPlain ? { handlePlain: (client, request) => proxy.handleRead(client, request) } : {}),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback: bed.fallback ?? ((request, response) => response.end(`fallback ${request.url}`)),
    ...(bed.times === undefined ? {} : { times: bed.times }),
    ...(bed.tls === undefined
      ? {}
      : { tls: { ...bed.tls, handleRead: (client, call) => proxy.handleRead(client, call) } }),
    trustedProxies,
    ...(bed.announcements === undefined ? {} : { announcements: bed.announcements }),
    clock: bed.listenerClock ?? systemClock,
  });
  const at = { host: "127.0.0.1", port: 0 };
  const { port } = await listener.listen(at);
  const tlsPort = bed.tls === undefined ? 0 : (await listener.listenTls(at)).port;
  t.after(async () => {
    proxy.close();
    await listener.close();
  });
  return {
    port,
    tlsPort,
    proxy,
    listener,
    view,
    appId,
    nudged,
    finished,
    setReplicas: (...ports) => {
      const known = new Map(
        view.ready(appId).map((replica) => [tcpAddress(replica.address).port, replica]),
      );
      const ready = ports.map(
        (one) => known.get(one) ?? readyReplica(appId, releaseId, one, settings.replicaConcurrency),
      );
      view.put(appId, { ready, failure: undefined });
    },
    setRoute: (changes) => (route = { ...route, ...changes }),
    call: (path, init = {}) =>
      fetch(`http://127.0.0.1:${port}/v4/${projectId}/hello${path}`, {
        ...init,
        headers: {
          authorization: `Bearer ${bedTokens.project}`,
          ...(init.headers as Record<string, string> | undefined),
        },
      }),
    connect: () => openRawClient(t, port),
  };
}

/**
 * Runs a test twice: with plain calls read on the socket itself, and with all calls read by node's
 * server.
 */
export function bothWays(
  run: (
    t: TestContext,
    openBed: (t: TestContext, bed?: BedOptions) => Promise<ProxyBed>,
  ) => Promise<void>,
): (t: TestContext) => Promise<void> {
  return async (t) => {
    for (const takesPlain of [true, false]) {
      const name = takesPlain
        ? "plain calls are read on the socket"
        : "all calls are read by node's server";
      await t.test(name, (part) =>
        run(part, (context, bed = {}) => openProxyBed(context, { ...bed, takesPlain })),
      );
    }
  };
}

/** The id of the replica behind a port. */
export function replicaIdOf(port: number): ReplicaId {
  return `hello-${port}` as ReplicaId;
}

function readyReplica(
  appId: AppId,
  releaseId: ReleaseId,
  port: number,
  concurrency: number,
): ReadyReplica {
  const address = { host: "127.0.0.1", port };
  return Object.freeze({ replicaId: replicaIdOf(port), appId, releaseId, address, concurrency });
}

/** The owner of a token of `bedTokens`. */
export function bedCaller(token: string): Caller | null {
  const common = {
    tokenId: "00000000-0000-4000-8000-000000000003" as TokenId,
    accountId: "00000000-0000-4000-8000-000000000003" as TokenId,
    role: null,
    permissions: null,
    name: "test",
  };
  if (token === bedTokens.project) return { ...common, kind: "inference", projectId };
  if (token === bedTokens.foreign)
    return { ...common, kind: "service_account", projectId: "p-99999999" as ProjectId };
  if (token === bedTokens.operator) return { ...common, kind: "operator", projectId: null };
  return null;
}

/**
 * A token that starts with `late.` is known only after an asynchronous lookup, like one that is
 * seen for the first time.
 */
function lateCaller(token: string): Promise<Caller | null> {
  if (token === "late.broken") return Promise.reject(new Error("the database does not answer"));
  return Promise.resolve(bedCaller(token.slice("late.".length)));
}

/** A replica that is a well-behaved HTTP server; resolves with its port. */
export async function httpReplica(
  t: TestContext,
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<number> {
  const take: RequestListener = (request, response) => void handler(request, response);
  const server = createServer({ keepAliveTimeout: 60_000 }, take);
  server.on("checkContinue", take);
  t.after(() => server.closeAllConnections());
  return listenFor(t, server);
}

/** A replica that handles each connection as the test says; resolves with its port. */
export async function rawReplica(
  t: TestContext,
  take: (socket: Socket, index: number) => void,
): Promise<number> {
  let count = 0;
  const server = createSocketServer((socket) => {
    socket.on("error", () => undefined);
    t.after(() => socket.destroy());
    take(socket, count++);
  });
  return listenFor(t, server);
}

/**
 * A port without a listener that nobody else gets before the test ends: the local port of a
 * client's connection.
 */
export async function closedPort(t: TestContext): Promise<number> {
  const server = createSocketServer((socket) => t.after(() => socket.destroy()));
  // With an address it is bound: otherwise a connection to the port may be made from the same port,
  // and reach itself.
  const client = connect({
    port: await listenFor(t, server),
    host: "127.0.0.1",
    localAddress: "127.0.0.1",
  });
  t.after(() => client.destroy());
  await once(client, "connect");
  return client.localPort ?? assert.fail("a connected socket has a port");
}

async function listenFor(t: TestContext, server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/**
 * Answers every complete request on the connection with these bytes. Requests must have no body.
 */
export function answerWith(socket: Socket, answer: string): void {
  let seen = "";
  socket.on("data", (chunk: Buffer) => {
    seen += chunk.toString("latin1");
    for (let end = seen.indexOf("\r\n\r\n"); end !== -1; end = seen.indexOf("\r\n\r\n")) {
      seen = seen.slice(end + 4);
      socket.write(answer, "latin1");
    }
  });
}

/** Sends `total` bytes in chunks, each after the previous one was written. */
export class Flood {
  /** Bytes written so far. */
  sentBytes = 0;
  readonly #socket: Socket;
  readonly #total: number;
  readonly #piece: Buffer;

  constructor(socket: Socket, total: number, piece: Buffer = Buffer.alloc(65_536)) {
    this.#socket = socket;
    this.#total = total;
    this.#piece = piece;
    this.#more();
  }

  /** Resolves once some bytes were written and writing has stalled. */
  async isStuck(): Promise<void> {
    let before = 0;
    let times = 0;
    await until("no more bytes leave", () => {
      times = this.sentBytes === before && before > 0 ? times + 1 : 0;
      before = this.sentBytes;
      return times === 8;
    });
  }

  #more(): void {
    if (this.sentBytes >= this.#total || this.#socket.destroyed) return;
    this.#socket.write(this.#piece, (error) => {
      if (error) return;
      this.sentBytes += this.#piece.length;
      this.#more();
    });
  }
}

/** A client that sends exactly what it is given. */
export class RawClient {
  readonly socket: Socket;
  text = "";
  isEnded = false;
  isClosed = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => (this.text += chunk.toString("latin1")));
    socket.on("end", () => (this.isEnded = true));
    socket.on("close", () => (this.isClosed = true));
    socket.on("error", () => undefined);
  }

  /** Sends a request for the app with the project's token; lines are given without line ends. */
  ask(line: string, fields: readonly string[] = [], body = ""): void {
    const head = [
      `${line} HTTP/1.1`,
      "Host: test",
      `Authorization: Bearer ${bedTokens.project}`,
      ...fields,
    ];
    this.socket.write(`${head.join("\r\n")}\r\n\r\n${body}`, "latin1");
  }

  send(text: string): void {
    this.socket.write(text, "latin1");
  }

  /** Resolves once the received text contains `part`. */
  async sees(part: string): Promise<void> {
    await until(`the client sees ${JSON.stringify(part)}`, () => {
      if (this.text.includes(part)) return true;
      if (this.isClosed)
        throw new Error(`the connection was closed after ${JSON.stringify(this.text)}`);
      return false;
    });
  }

  /** Resolves once the connection is closed. */
  async sawEnd(): Promise<void> {
    await until("the client's connection is closed", () => this.isEnded || this.isClosed);
  }
}

async function openRawClient(t: TestContext, port: number): Promise<RawClient> {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  t.after(() => socket.destroy());
  const client = new RawClient(socket);
  await once(socket, "connect");
  return client;
}

/** The path of the app for raw clients. */
export const helloPath = `/v4/${projectId}/hello`;

/** Waits until no call runs or waits. */
export async function untilFree(bed: ProxyBed): Promise<void> {
  await until("no place is taken", () => {
    const { running, waiting } = bed.proxy.apps.demandOf(bed.appId);
    return running === 0 && waiting === 0;
  });
}
