// The embedded database: a real PostgreSQL as a child process, reachable only through a Unix socket
// in a private folder, with a password. It is restarted when it dies, and stopped with the
// platform.
import { existsSync, readFileSync } from "node:fs";
import { chown, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import type { FolderLock } from "#store/folder-lock.ts";
import {
  clusterPaths,
  embeddedUser,
  makeClusterFolder,
  prepareCluster,
  readPassword,
} from "./postgres-cluster.ts";
import { clearOrphan, shortSocketPrefix } from "./postgres-orphan.ts";
import { findPostgres } from "./postgres-program.ts";
import { PostgresServer } from "./postgres-server.ts";

/** A running embedded server. */
export type Embedded = {
  /** The URL of the platform's own database, with the password. Restarts do not change it. */
  readonly url: Secret;
  /** Process id of the running server, or null. */
  pid(): number | null;
  /** Shuts the server down cleanly, and resolves when it has ended. May be called twice. */
  stop(): Promise<void>;
};

export type EmbeddedOptions = {
  /** The embedded server's own folder, inside the data folder. */
  readonly folder: string;
  /**
   * The held lock on the data folder. It is only a proof: whoever holds it may stop a server that a
   * killed platform has left.
   */
  readonly lock: FolderLock;
  readonly log: Log;
  /** The maximum number of client connections. */
  readonly connections: number;
  /** False only for tests: data need not survive a power failure. */
  readonly durable?: boolean;
  readonly clock: Clock;
};

const databaseName = "slipway";

/** sockaddr_un holds 108 bytes on Linux, 104 on macOS, including the terminator. */
const socketPathBytesMax = 103;
const socketName = ".s.PGSQL.5432";

/**
 * Creates the database if needed, cleans up after a killed platform, starts the server. Throws
 * `CannotStart` with what to do.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { folder, log, durable = true, clock } = options;
  await makeClusterFolder(folder);
  const program = await findPostgres(folder);
  const paths = clusterPaths(folder);
  if (existsSync(paths.dataFolder)) await clearOrphan(paths.dataFolder, { log, clock });
  else log.info({ folder }, "creating an embedded PostgreSQL, which takes some seconds");
  const password = await prepareCluster(folder, { program, durable, clock });
  const socketFolder = await makeSocketFolder(paths.socketFolder);
  await chown(socketFolder, program.owner.uid, program.owner.gid);
  const server = new PostgresServer({
    program,
    log,
    clock,
    dataFolder: paths.dataFolder,
    logFile: paths.logFile,
    settings: serverSettings({ socketFolder, durable, connections: options.connections }),
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    await rm(socketFolder, { recursive: true, force: true });
  };
  const url = (name: string): string => urlOf({ password, socketFolder, name });
  try {
    await server.start();
    await makeDatabase(url("postgres"));
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: new Secret(url(databaseName)), pid: () => server.pid(), stop };
}

function urlOf(server: { password: Secret; socketFolder: string; name: string }): string {
  const host = encodeURIComponent(server.socketFolder);
  return `postgres://${embeddedUser}:${server.password.reveal()}@localhost/${server.name}?host=${host}`;
}

/**
 * The URL of the embedded database that another process, the platform, runs in this folder. Null:
 * no server runs there, or it is just starting.
 */
export function runningEmbeddedUrl(folder: string): Secret | null {
  const paths = clusterPaths(folder);
  const pidFile = join(paths.dataFolder, "postmaster.pid");
  if (!existsSync(pidFile)) return null;
  // The fifth line of the pid file is the folder of the server's socket.
  const [, , , , socketFolder = ""] = readFileSync(pidFile, "utf8").split("\n");
  if (socketFolder === "") return null;
  const password = readPassword(paths.passwordFile);
  return new Secret(urlOf({ password, socketFolder, name: databaseName }));
}

/**
 * Small buffers, few processes, and a write-ahead log for crash recovery only, since nothing
 * replicates from here.
 */
function serverSettings(options: {
  socketFolder: string;
  durable: boolean;
  connections: number;
}): string[] {
  const settings: Record<string, string | number> = {
    listen_addresses: "",
    unix_socket_directories: options.socketFolder,
    unix_socket_permissions: "0700",
    // Besides the pool, locks, notifications, migrations and tools need a few connections.
    max_connections: options.connections + 10,
    shared_buffers: "64MB",
    io_method: "sync",
    jit: "off",
    max_wal_senders: 0,
    wal_level: "minimal",
    max_wal_size: "256MB",
    min_wal_size: "64MB",
    max_logical_replication_workers: 0,
    max_parallel_workers_per_gather: 0,
    timezone: "UTC",
    log_timezone: "UTC",
    log_checkpoints: "off",
    // The platform handles refused statements itself. The server does not log them, because its log
    // would then show the values of rows.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    ...(options.durable
      ? {}
      : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

/**
 * Makes the folder of the socket below the data folder. If that path is too long for a socket, it
 * is a private folder in the system's temporary folder.
 */
async function makeSocketFolder(preferred: string): Promise<string> {
  const fits = (folder: string): boolean =>
    Buffer.byteLength(join(folder, socketName)) <= socketPathBytesMax;
  if (fits(preferred)) {
    await mkdir(preferred, { recursive: true, mode: 0o700 });
    return preferred;
  }
  // `mkdtemp` appends six characters.
  const base = fits(join(tmpdir(), `${shortSocketPrefix}XXXXXX`)) ? tmpdir() : "/tmp";
  return mkdtemp(join(base, shortSocketPrefix));
}

async function makeDatabase(url: string): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    const found = await client.query("select from pg_database where datname = $1", [databaseName]);
    if (found.rowCount === 0) await client.query(`create database ${databaseName}`);
  } finally {
    await client.end();
  }
}
