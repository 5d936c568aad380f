// The database server of a test run: an embedded one with migrated template databases that tests
// clone.
import { statfsSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";
import { Pool } from "pg";
import { SigningKeys } from "#accounts/keys.ts";
import { platformActor } from "#audit/record.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import { startEmbedded } from "#store/postgres/embedded.ts";
import { lockFolder } from "#store/folder-lock.ts";
import { migrate } from "#store/migrate.ts";
import { foldersOfTheDead, makeFolder, removeFolder } from "./folder.ts";
import { connect } from "./connect.ts";

/** The variable in which the runner passes the server to test files. */
export const testDatabaseVariable = "SLIPWAY_TEST_DATABASE";

/** The database that `testDatabase` clones. */
export const templateName = "template_slipway";

/** The same with a signing key, which is slow to generate; sealed with `templateSecretKey`. */
export const keyTemplateName = "template_slipway_key";

/** The secret key of a platform on a clone of `keyTemplateName`. */
export const templateSecretKey = "11".repeat(32);

export type TestServer = {
  /** The URL of the server's template database; the value for SLIPWAY_TEST_DATABASE. */
  readonly url: string;
  stop(): Promise<void>;
};

/**
 * Starts an embedded server with migrated template databases in a temporary folder. `stop` removes
 * everything.
 */
export async function startTestServer(): Promise<TestServer> {
  const folder = makeFolder("database", memoryFolder());
  const lock = lockFolder(join(folder, lockName));
  const server = await startEmbedded({
    clock: systemClock,
    folder: join(folder, "postgres"),
    lock,
    log: silentLog,
    connections: 300,
    durable: false,
  });
  const url = databaseUrl(server.url.reveal(), templateName);
  await administer(server.url.reveal(), `create database ${templateName}`);
  await migrate({ url: new Secret(url), log: silentLog });
  await addKey(
    await cloneDatabase(server.url.reveal(), { name: keyTemplateName, template: templateName }),
  );
  return {
    url,
    async stop() {
      await server.stop();
      lock.release();
      removeFolder(folder);
    },
  };
}

const lockName = "slipway.lock";
const sharedMemory = "/dev/shm";
/** The server needs a few hundred megabytes; the machine's memory is shared with others. */
const memoryBytesMin = 4e9;

/**
 * A memory file system, if there is a large one: a database is a thousand files, and each test
 * creates and deletes one.
 */
function memoryFolder(): string | undefined {
  try {
    // A killed run leaves its folder, which would occupy memory until the machine restarts.
    for (const folder of foldersOfTheDead(sharedMemory)) removeUnlocked(folder);
    const { bavail, bsize } = statfsSync(sharedMemory);
    return Math.min(bavail * bsize, freemem()) >= memoryBytesMin ? sharedMemory : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Skips a folder that another process still uses: process ids of containers are not visible here.
 */
function removeUnlocked(folder: string): void {
  try {
    lockFolder(join(folder, lockName)).release();
  } catch {
    return;
  }
  removeFolder(folder);
}

async function addKey(url: string): Promise<void> {
  const db = await connect(new Secret(url), 1);
  try {
    const keys = new SigningKeys({ sealer: new Sealer([templateSecretKey]), clock: systemClock });
    await keys.rotate(db, { actor: platformActor });
  } finally {
    await db.destroy();
  }
}

/** Creates a database on the server of the URL; returns its URL. */
export async function cloneDatabase(
  url: string,
  given: { name: string; template: string },
): Promise<string> {
  const { name, template } = given;
  // The default strategy, page by page through the write-ahead log, takes twice as long, and again
  // at the first connections.
  await administer(url, `create database ${name} template ${template} strategy file_copy`);
  return databaseUrl(url, name);
}

/** The URL of another database on the same server. */
export function databaseUrl(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.toString();
}

/**
 * Connections to the servers that statements ran on, by URL: a new one for each would take as long
 * as the statement.
 */
const administrators = new Map<string, Pool>();

/** Runs one statement outside any test's database. */
export async function administer(url: string, statement: string): Promise<void> {
  const connectionString = databaseUrl(url, "postgres");
  let pool = administrators.get(connectionString);
  if (pool === undefined) {
    pool = new Pool({ connectionString, connectionTimeoutMillis: 10_000, allowExitOnIdle: true });
    // A server that stops ends them.
    pool.on("error", () => undefined);
    administrators.set(connectionString, pool);
  }
  await pool.query(statement);
}
