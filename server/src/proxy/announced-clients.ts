// With SLIPWAY_PROXY_PROTOCOL, each connection of a trusted proxy begins with a header that says
// which client it is for. Here the header is read before anything else of the connection, also
// before TLS, and the client's address becomes the address of the connection. Connections of others
// are not read here, so a header in them is not believed.
import type { Server, Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import { readClientHeader, type ClientHeader } from "./client-header.ts";
import { Timed, type Deadlines } from "./deadlines.ts";

export type AnnouncedClientsParts = {
  readonly trustedProxies: TrustedProxies;
  readonly deadlines: Deadlines;
  readonly clock: Clock;
  readonly log: Log;
  /** How long a header may take to arrive. */
  readonly headerMs: number;
};

/** A connection whose header has been read. */
type Announced = Pick<ClientHeader, "client"> & {
  readonly socket: Socket;
  /** Hands the connection to the listeners that the server had before. */
  readonly take: (socket: Socket) => void;
};

/** `none`: the connection has ended, or its header took too long. */
type Outcome = ClientHeader | "invalid" | "none";

/** The clients of one listener's connections, as the trusted proxies have announced them. */
export class AnnouncedClients {
  readonly #parts: AnnouncedClientsParts;
  /** The connections whose header is not complete. */
  readonly #unread = new Set<UnreadHeader>();
  /** The announced addresses for encrypted connections, by `endsOf`. See `ClientHeader`. */
  readonly #addresses = new Map<string, string | undefined>();
  /** Limits the warnings, by the proxy's address. */
  readonly #warnings: RateLimit;

  constructor(parts: AnnouncedClientsParts) {
    this.#parts = parts;
    this.#warnings = new RateLimit({ max: 1, clock: parts.clock });
  }

  /**
   * Makes the present listeners of the server for new connections wait: they get a connection only
   * when its header has been read.
   */
  readFirst(server: Server): void {
    this.#before(server, ({ socket, client, take }) => {
      if (client !== null) setAddress(socket, client.address);
      take(socket);
      socket.resume();
    });
  }

  /**
   * Like `readFirst`, for a server of TLS. The caller gives each encrypted connection to `name`,
   * since the address is announced on the connection below it.
   */
  readFirstOfTls(server: Server): void {
    this.#before(server, ({ socket, client, take }) => {
      if (client !== null) {
        const ends = endsOf(socket);
        this.#addresses.set(ends, client.address);
        socket.once("close", () => this.#addresses.delete(ends));
      }
      // The server itself begins to read.
      take(socket);
    });
  }

  /** Gives an encrypted connection the address that was announced on the one below it. */
  name(encrypted: TLSSocket): void {
    const ends = endsOf(encrypted);
    if (this.#addresses.has(ends)) setAddress(encrypted, this.#addresses.get(ends));
  }

  /** Closes the connections that have waited for their header since `sinceMs`. */
  closeSilent(sinceMs: number): void {
    for (const unread of this.#unread) if (unread.sinceMs <= sinceMs) unread.close();
  }

  /**
   * Replaces the server's listeners for new connections by one that first reads the header of a
   * trusted proxy's connection, and then calls `begin`.
   */
  #before(server: Server, begin: (announced: Announced) => void): void {
    const listeners = server.listeners("connection");
    server.removeAllListeners("connection");
    const take = (socket: Socket): void => {
      for (const listener of listeners) listener.call(server, socket);
    };
    server.on("connection", (socket: Socket) => {
      // An encrypted connection comes from one whose header has been read already.
      const isAnnounced = !(socket instanceof TLSSocket) && this.#isOfProxy(socket);
      if (isAnnounced) this.#read(socket, ({ client }) => begin({ socket, client, take }));
      else take(socket);
    });
  }

  #isOfProxy({ remoteAddress = "" }: Socket): boolean {
    return this.#parts.trustedProxies.has(remoteAddress);
  }

  #read(socket: Socket, begin: (header: ClientHeader) => void): void {
    const { deadlines, clock, headerMs } = this.#parts;
    const sinceMs = clock.monotonicMs();
    const unread = new UnreadHeader(socket, sinceMs, (header) => {
      this.#unread.delete(unread);
      deadlines.clear(unread);
      if (typeof header === "object") return begin(header);
      if (header === "invalid") this.#warn(socket);
      socket.destroy();
    });
    this.#unread.add(unread);
    deadlines.set(unread, sinceMs + headerMs);
  }

  /** Logs at most one line a minute for each proxy, since proxies open many connections. */
  #warn({ remoteAddress = "unknown" }: Socket): void {
    if (!this.#warnings.tryTake(remoteAddress)) return;
    this.#parts.log.warn(
      { address: remoteAddress },
      "a connection of a trusted proxy was closed, since it does not begin with a header of the PROXY protocol: let the proxy send it, or change SLIPWAY_PROXY_PROTOCOL or SLIPWAY_TRUSTED_PROXIES",
    );
  }
}

/** One connection whose header has not arrived as a whole. */
class UnreadHeader extends Timed {
  /** When the connection was opened, by `Clock.monotonicMs`. */
  readonly sinceMs: number;
  readonly #socket: Socket;
  readonly #done: (header: Outcome) => void;
  /** What has arrived so far. */
  #bytes = Buffer.alloc(0);

  /** `done` is called once. The socket is then paused, and what follows the header is unread. */
  constructor(socket: Socket, sinceMs: number, done: (header: Outcome) => void) {
    super();
    this.#socket = socket;
    this.sinceMs = sinceMs;
    this.#done = done;
    socket.on("data", this.#onData);
    socket.on("end", this.#onGone);
    socket.on("close", this.#onGone);
    socket.on("error", this.#onError);
  }

  readonly #onData = (chunk: Buffer): void => this.#data(chunk);
  readonly #onGone = (): void => this.#end("none");
  /** There is nothing to do: `close` follows an error. */
  readonly #onError = (): void => undefined;

  /** Closes the connection, from which nothing has come that could be answered. */
  close(): void {
    this.#end("none");
  }

  override onDeadline(): void {
    this.close();
  }

  #data(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const header = readClientHeader(this.#bytes);
    if (header !== "unfinished") this.#end(header);
  }

  #end(header: Outcome): void {
    const socket = this.#socket;
    socket.pause();
    socket.off("data", this.#onData);
    socket.off("end", this.#onGone);
    socket.off("close", this.#onGone);
    // Otherwise `#onError` stays, since errors of a socket that is being closed need a listener.
    if (typeof header === "object") {
      socket.off("error", this.#onError);
      const rest = this.#bytes.subarray(header.length);
      if (rest.length > 0) socket.unshift(rest);
    }
    this.#done(header);
  }
}

/** Both ends of a connection: no other open connection has the same. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}

/** Makes the socket show the client's address, as if the client had connected itself. */
function setAddress(socket: Socket, address: string | undefined): void {
  Object.defineProperty(socket, "remoteAddress", { value: address });
}
