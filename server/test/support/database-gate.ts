// A TCP proxy to a database that can be cut: the platform under test connects through it, the test
// itself does not.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import type { Secret } from "#lib/secret.ts";
import { cleanLast, type WithAfter } from "./clean-last.ts";

export type DatabaseGate = {
  /** The value for SLIPWAY_DATABASE_URL. */
  readonly url: string;
  /** Cuts all connections and refuses new ones until it is opened again. */
  shut(): void;
  open(): void;
  /** Cuts all connections; new ones are accepted and get no answer. Resolves once there is one. */
  silence(): Promise<void>;
  /**
   * Cuts only the clients' side: the server keeps their sessions, as when a machine or a network
   * fails.
   */
  loseClients(): void;
};

/**
 * Opens a gate to the database; closed after the test. A message that matches `cutAt` cuts its
 * connection instead.
 */
export async function openDatabaseGate(
  t: WithAfter,
  database: Secret,
  cutAt: (sent: Buffer) => boolean = () => false,
): Promise<DatabaseGate> {
  const target = new URL(database.reveal());
  const path = socketPathOf(target);
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();
  const lost = new Set<Socket>();
  let isShut = false;
  let onSilent: (() => void) | null = null;
  const server = createServer((client) => {
    if (isShut) return void client.destroy();
    if (onSilent !== null) {
      sockets.add(client.on("error", () => undefined));
      onSilent();
      return;
    }
    const behind = connect({ path });
    clients.add(client);
    client.on("close", () => clients.delete(client));
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        if (!lost.delete(from)) to.destroy();
      });
    }
    client.on("data", (sent: Buffer) => {
      if (cutAt(sent)) client.destroy();
    });
    client.pipe(behind).pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  cleanLast(t, () => {
    cut();
    server.close();
  });
  return {
    url: urlAt(target, (server.address() as AddressInfo).port),
    shut() {
      isShut = true;
      cut();
    },
    open: () => void (isShut = false),
    async silence() {
      const silent = Promise.withResolvers<void>();
      onSilent = silent.resolve;
      cut();
      await silent.promise;
    },
    loseClients() {
      for (const client of clients) {
        lost.add(client);
        client.unpipe();
        client.destroy();
      }
    },
  };
}

function socketPathOf(database: URL): string {
  const folder = database.searchParams.get("host") ?? "";
  const port = database.searchParams.get("port") ?? (database.port === "" ? "5432" : database.port);
  return join(folder, `.s.PGSQL.${port}`);
}

function urlAt(database: URL, port: number): string {
  const url = new URL(database);
  url.search = "";
  url.hostname = "127.0.0.1";
  url.port = String(port);
  return url.href;
}
