// The database server of a test run: shared by all test files, which clone databases on it and drop
// them.
import { Client } from "pg";
import { startTestServer, type TestServer } from "@slipway/server/test/support/test-server.ts";

/** The server, and what tests left on it. */
export type RunServer = TestServer & {
  /** Names of databases that tests created and did not drop. */
  databasesLeft(): Promise<string[]>;
};

/** Starts the server in the folder in TMPDIR. `stop` removes it and may be called twice. */
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
