// The database server of a test run: an embedded one with a migrated template database that tests clone.
import { join } from "node:path";
import { Client } from "pg";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { startEmbedded } from "#store/postgres/embedded.ts";
import { lockFolder } from "#store/folder-lock.ts";
import { migrate } from "#store/migrate.ts";
import { makeFolder, removeFolder } from "./folder.ts";

/** The variable by which the runner tells test files where the server is. */
export const testDatabaseVariable = "SLIPWAY_TEST_DATABASE";

/** The database that `testDatabase` clones. */
export const templateName = "template_slipway";

export type TestServer = {
  /** Of the server's template database; value for SLIPWAY_TEST_DATABASE. */
  readonly url: string;
  stop(): Promise<void>;
};

/** Starts an embedded server with a migrated template database in a temporary folder. `stop` removes everything. */
export async function startTestServer(): Promise<TestServer> {
  const folder = makeFolder("database");
  const lock = lockFolder(join(folder, "slipway.lock"));
  const server = await startEmbedded({
    folder: join(folder, "postgres"),
    lock,
    log: silentLog,
    connections: 300,
    durable: false,
  });
  const url = databaseUrl(server.url.reveal(), templateName);
  await administer(server.url.reveal(), `create database ${templateName}`);
  await migrate({ url: new Secret(url), log: silentLog });
  return {
    url,
    async stop() {
      await server.stop();
      lock.release();
      removeFolder(folder);
    },
  };
}

/** The URL of another database on the same server. */
export function databaseUrl(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.toString();
}

/** Runs one statement outside of any test's database. */
export async function administer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl(url, "postgres"), connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
