// Lets the requests of a listener end before it closes. If new connections cannot wait for the next
// platform, their requests are refused. New connections can wait in a listening socket that the
// next platform inherits, or be held back by a firewall. Then they are still served for a while,
// and later ones wait.
import type { Server } from "node:http";
import type { Server as SocketServer } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "#lib/clock.ts";
import type { AnnouncedClients } from "./announced-clients.ts";
import type { Http2Connections } from "./http2-server.ts";
import type { OpenAnswers } from "./malformed.ts";
import type { PlainConnection } from "./plain-connection.ts";

/** How often a listener that drains looks for connections to close. */
const drainCheckMs = 50;
/**
 * While the listener drains: how long a connection is silent before it is closed. A client that
 * sends a call right after it has connected, or right after an answer, still gets an answer.
 */
const silentMs = 1_000;
/**
 * If new connections can wait: how long open ones stay, so that their clients learn from an answer
 * that the connection ends. A client that has been silent for so long is unlikely to send a request
 * at the very moment in which its connection is closed.
 */
const farewellMs = 5_000;
/** If new connections can wait: how much time of the drain is left for the last accepted calls. */
const lastCallsMs = 10_000;

/** Knows whether the listener drains, and which connections may then still send requests. */
export class Shutdown {
  /** True once the listener drains. */
  hasBegun = false;
  /** The connections that may send requests; null: all. */
  remaining: ReadonlySet<Duplex> | null = null;

  /** Whether requests of the connection are refused. */
  refuses(socket: Duplex): boolean {
    return this.remaining !== null && !this.remaining.has(socket);
  }
}

/** What is open of a listener. */
export type DrainParts = {
  readonly server: Server;
  /** All open connections. */
  readonly open: ReadonlySet<Duplex>;
  /** The open connections that are plain. */
  readonly plain: ReadonlySet<PlainConnection>;
  /** Holds connections whose header has not arrived; null: there are no headers. */
  readonly announced: AnnouncedClients | null;
  /** The open answers on the connections that Node's server reads. */
  readonly answers: OpenAnswers;
  /** The encrypted port; null: there is none. */
  readonly tls: { readonly server: SocketServer; readonly http2: Http2Connections } | null;
  readonly shutdown: Shutdown;
  readonly clock: Clock;
};

/**
 * Makes new connections to these ports wait for the next platform. Resolves when no more of them
 * come here.
 */
export type HoldBack = (ports: readonly number[]) => Promise<void>;

export type DrainOptions = {
  /** How long the running requests may take to end. */
  readonly drainMs: number;
  /** Other processes keep the socket of the plain port open. */
  readonly isShared: boolean;
  /** Makes new connections to ports that are not shared wait; null: they are refused. */
  readonly holdBack: HoldBack | null;
};

/**
 * Resolves when the running requests have ended. After `drainMs`, closes the connections of
 * requests that still run.
 */
export async function drainListener(
  { server, open, plain, announced, answers, tls, shutdown, clock }: DrainParts,
  { drainMs, isShared, holdBack }: DrainOptions,
): Promise<void> {
  const drain: Drain = { server, remaining: new Set(open), plain, announced, clock };
  const beganMs = clock.monotonicMs();
  shutdown.hasBegun = true;
  // Each answer from now on says that it is the last on its connection.
  for (const connection of plain) connection.isClosing = true;
  for (const socket of open) answers.makeLast(socket);
  tls?.http2.drain();
  server.keepAliveTimeout = silentMs;
  if (isShared || holdBack !== null) {
    // In a short drain, connections are accepted for half of it.
    const acceptMs = Math.max(drainMs - lastCallsMs, drainMs / 2);
    await sayFarewell(drain, { beganMs, acceptMs });
    // In a shared socket, connections wait by themselves.
    const heldServers = [isShared ? null : server, tls?.server ?? null];
    await holdBack?.(heldServers.flatMap(portOf));
    // In this time, the connections that had arrived before are accepted.
    await clock.sleep(drainCheckMs);
    // The descriptors of other processes stay open, and so does a shared socket.
    server.close();
    // The encrypted port is never shared: from here on nobody accepts there.
    tls?.server.close();
    // Ends also the connections that have come since the first call.
    tls?.http2.drain();
    drain.remaining = new Set(open);
  } else {
    shutdown.remaining = drain.remaining;
    server.closeIdleConnections();
  }
  await awaitEnds(drain, beganMs + drainMs);
  for (const socket of drain.remaining) socket.destroy();
}

/** The port as a list; empty when the server does not listen. */
function portOf(server: SocketServer | null): readonly number[] {
  const address = server?.address() ?? null;
  return address === null || typeof address === "string" ? [] : [address.port];
}

type Drain = {
  readonly server: Server;
  /** The connections that are waited for. */
  remaining: Set<Duplex>;
  readonly plain: ReadonlySet<PlainConnection>;
  readonly announced: AnnouncedClients | null;
  readonly clock: Clock;
};

/**
 * Goes on accepting connections until the ones that were open at the beginning have ended, for up
 * to `acceptMs`. Silent connections are closed after `farewellMs`, or later while open connections
 * still end one after another: their clients then use each for a last call.
 */
async function sayFarewell(
  drain: Drain,
  { beganMs, acceptMs }: { readonly beganMs: number; readonly acceptMs: number },
): Promise<void> {
  const { clock, remaining } = drain;
  const untilMs = beganMs + acceptMs;
  let silentUntilMs = beganMs + Math.min(farewellMs, acceptMs);
  for (let count = countOpen(remaining); count > 0 && clock.monotonicMs() < silentUntilMs;) {
    await clock.sleep(drainCheckMs);
    const earlierCount = count;
    count = countOpen(remaining);
    if (count < earlierCount)
      silentUntilMs = Math.min(untilMs, Math.max(silentUntilMs, clock.monotonicMs() + silentMs));
  }
  await afterReads();
  drain.server.closeIdleConnections();
  await awaitEnds(drain, untilMs);
}

/** Closes silent connections, until all in `remaining` are closed or it is `untilMs`. */
async function awaitEnds(
  { remaining, plain, announced, clock }: Drain,
  untilMs: number,
): Promise<void> {
  for (;;) {
    await afterReads();
    const nowMs = clock.monotonicMs();
    for (const connection of plain) connection.closeSilent(nowMs - silentMs);
    announced?.closeSilent(nowMs - silentMs);
    if (countOpen(remaining) === 0 || nowMs >= untilMs) return;
    await clock.sleep(drainCheckMs);
  }
}

/**
 * Resolves right after Node has read what had arrived. On a busy machine, a connection may look
 * silent although its next call has arrived, but has not been read.
 */
function afterReads(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Removes the connections that are closed, and returns how many are left. */
function countOpen(connections: Set<Duplex>): number {
  for (const socket of connections) if (socket.destroyed) connections.delete(socket);
  return connections.size;
}
