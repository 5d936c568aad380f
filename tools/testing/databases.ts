// The database server of a run: one for all test files, each of which clones databases from it and drops them.
import { Client } from "pg";
import { startTestServer, type TestServer } from "@slipway/server/test/support/test-server.ts";

/** The server, and what tests left on it. */
export type RunServer = TestServer & {
  /** Names of databases that tests made and did not drop. */
  databasesLeft(): Promise<string[]>;
};

/** Starts the server below the folder that TMPDIR names. `stop` removes it; it may be called twice. */
export async function startRunServer(): Promise<RunServer> {
  const server = await startTestServer();
  let stopped: Promise<void> | undefined;
  return {
    url: server.url,
    stop: () => (stopped ??= server.stop()),
    databasesLeft: () => listDatabases(server.url),
  };
}

async function listDatabases(url: string): Promise<string[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const found = await client.query<{ datname: string }>(
      "select datname from pg_database where datname like 'test\\_%' order by datname",
    );
    return found.rows.map((row) => row.datname);
  } finally {
    await client.end();
  }
}
