// A PostgreSQL server as the platform starts its own, for benchmarks that fill databases or share
// one server between several contenders.
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Client } from "pg";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { Secret } from "@slipway/server/src/lib/secret.ts";
import { DatabaseCounts } from "@slipway/server/src/store/database-counts.ts";
import { openDatabase, type Db } from "@slipway/server/src/store/database.ts";
import { lockFolder } from "@slipway/server/src/store/folder-lock.ts";
import { startEmbedded } from "@slipway/server/src/store/postgres/embedded.ts";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { administer, databaseUrl } from "@slipway/server/test/support/test-server.ts";
import { cpuSecondsOf } from "./process-use.ts";

/** For all databases together. */
const connections = 250;

/** A server that runs until the benchmark is over. */
export type DatabaseServer = {
  /** Creates an empty database and returns its URL. */
  database(name: string): Promise<string>;
  /** CPU seconds of all its processes. */
  cpuSeconds(): number;
};

/** Starts a server with the settings of an embedded one; it is durable. */
export async function startDatabaseServer(t: TestContext): Promise<DatabaseServer> {
  const folder = temporaryFolder(t, "database");
  const lock = lockFolder(join(folder, "lock"));
  t.after(() => lock.release());
  const server = await startEmbedded({
    clock: systemClock,
    folder: join(folder, "postgres"),
    lock,
    log: silentLog,
    connections,
  });
  t.after(() => server.stop());
  const url = server.url.reveal();
  return {
    async database(name) {
      await administer(url, `create database bench_${name}`);
      return databaseUrl(url, `bench_${name}`);
    },
    cpuSeconds: () => cpuSecondsOf(server.pid() ?? -1),
  };
}

/** Connects to a database as its owner. */
export async function connectTo(t: TestContext, url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  t.after(() => client.end());
  return client;
}

/** Opens a database as the platform does. */
export async function openPlatformDatabase(
  t: TestContext,
  url: string,
  poolSize: number,
): Promise<Db> {
  const db = await openDatabase({
    clock: systemClock,
    url: new Secret(url),
    connections: poolSize,
    counts: new DatabaseCounts(),
    log: silentLog,
  });
  t.after(() => db.destroy());
  return db;
}
