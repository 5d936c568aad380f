// Connections to PostgreSQL and typed queries on them. `store/tables.ts` has the types, one `*-store.ts` per area the
// queries. Every statement and every wait for a connection or a lock has a deadline; none may change what is only added to.
// In statements `clock_timestamp()` is the platform's time (database-time.ts); `now()` and defaults of columns are the server's.
import { Kysely, type Transaction } from "kysely";
import { Client, Pool, types, type ClientBase, type ClientConfig } from "pg";
import { assert, must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { steadyClock } from "#lib/steady-clock.ts";
import { cutWithoutAnswer } from "./answer-deadline.ts";
import { DatabaseCounts } from "./database-counts.ts";
import { DatabaseTime, TimedDialect } from "./database-time.ts";
import { takeRuntimeRole } from "./runtime-role.ts";
import type { Tables } from "./tables.ts";

/** The database, for single statements and for starting transactions. */
export type Db = Kysely<Tables>;
/** A running transaction. Functions that must be part of one take this. */
export type Tx = Transaction<Tables>;

export type DatabaseOptions = {
  readonly url: Secret;
  /** The most connections at a time. */
  readonly connections: number;
  readonly log: Log;
  /** How long a server that is starting or not there yet is waited for. */
  readonly reachWaitMs?: number;
  /** How long a statement may take. */
  readonly statementMs?: number;
  readonly clock?: Clock;
  readonly counts?: DatabaseCounts;
};

/** `unique nulls not distinct` came with it. */
const majorMin = 15;
const connectWaitMs = 10_000;
const statementMsUsually = 30_000;
/** The server says by itself that a statement took too long; how much longer it is waited for. */
const answerMarginMs = 5_000;
const lockWaitMs = 10_000;
/** A transaction that does nothing for so long belongs to a request that hangs; its locks must not. */
const idleInTransactionMs = 60_000;
const idleConnectionMs = 60_000;
const retryPauseMs = 250;

/** Connects and checks the server. Close with `destroy()`. Throws `CannotStart` when it cannot be reached or is too old. */
export async function openDatabase(options: DatabaseOptions): Promise<Db> {
  const config = clientConfig(options.url);
  const { clock = systemClock, statementMs = statementMsUsually, counts = new DatabaseCounts() } = options;
  const time = new DatabaseTime({ clock: steadyClock, log: options.log, ask: () => askClock(pool) });
  await checkServer(config, options, time);
  const pool = new Pool({
    ...config,
    max: options.connections,
    idleTimeoutMillis: idleConnectionMs,
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: idleInTransactionMs,
    lock_timeout: lockWaitMs,
    // Of the pool, not of the query builder, which does not give a connection back that breaks meanwhile.
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, which its types do not say yet
    onConnect: async (client) => {
      cutWithoutAnswer(client, statementMs + answerMarginMs, clock);
      await prepareConnection(client);
    },
  });
  // Idle connections break when the server restarts; the pool has replaced them by then.
  pool.on("error", (error) => options.log.warn({ err: error }, "a database connection broke"));
  // One that breaks within a transaction, between two statements, has nobody else to tell: without a listener it would
  // end the process. The next statement on it fails.
  pool.on("connect", (client) => {
    client.on("error", (error: Error) => options.log.debug({ err: error }, "a database connection in use broke"));
  });
  const counted = counts.over(pool, () => clock.monotonicMs());
  return new Kysely<Tables>({ dialect: new TimedDialect({ pool: counted }, time), log: counts.onEvent });
}

const clockColumn = "extract(epoch from clock_timestamp())::float8 * 1000 as ms";

async function askClock(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(`select ${clockColumn}`);
  return must(rows[0], "a select without a table has one row").ms;
}

async function prepareConnection(client: ClientBase): Promise<void> {
  // A server may be set to another one: numbers of the audit log's chains need what was committed a moment ago.
  await client.query("set default_transaction_isolation = 'read committed'");
  await client.query(takeRuntimeRole);
}

/** Settings that every connection of the platform has in common. Throws `CannotStart` when the URL cannot be read. */
export function clientConfig(url: Secret): ClientConfig {
  const config: ClientConfig = {
    connectionString: url.reveal(),
    application_name: "slipway",
    connectionTimeoutMillis: connectWaitMs,
    keepAlive: true,
    types: { getTypeParser: parserOf },
  };
  try {
    // The constructor parses the URL and opens nothing.
    void new Client(config);
  } catch {
    // The parser's error holds the whole URL, and so the password: it is not kept as the cause.
    throw new CannotStart("SLIPWAY_DATABASE_URL cannot be read as a URL (its value is not shown).");
  }
  return config;
}

type Parse = (text: string) => unknown;

/** As the driver does it, but for int8, which it would hand out as text. */
function parserOf(oid: number, format?: "text" | "binary"): Parse {
  if (oid === types.builtins.INT8 && format !== "binary") return parseInt8;
  const parse: unknown = format === "binary" ? types.getTypeParser(oid, "binary") : types.getTypeParser(oid, "text");
  return parse as Parse;
}

/** Row numbers, counts and epochs stay far below 2^53; a value that does not is a bug and must not be rounded. */
function parseInt8(text: string): number {
  const value = Number(text);
  assert(Number.isSafeInteger(value), `the database returned ${text}, which is too large for a number`);
  return value;
}

async function checkServer(config: ClientConfig, options: DatabaseOptions, time: DatabaseTime): Promise<void> {
  const { clock = systemClock, reachWaitMs = 15_000, log } = options;
  const deadline = clock.monotonicMs() + reachWaitMs;
  for (;;) {
    const found = await askVersion(config, time);
    if (typeof found === "number") {
      if (Math.floor(found / 10_000) >= majorMin) return;
      throw new CannotStart(
        `The database runs PostgreSQL ${Math.floor(found / 10_000)}; ${majorMin} or newer is needed.`,
      );
    }
    if (!mayPass(found) || clock.monotonicMs() >= deadline) {
      throw new CannotStart(`The database at ${placeOf(config)} cannot be used: ${found.message}`, { cause: found });
    }
    log.info({ reason: found.message }, "waiting for the database");
    await clock.sleep(retryPauseMs);
  }
}

/** The server's version as PostgreSQL counts it (180004), or why it could not be asked; looks at its clock. */
async function askVersion(config: ClientConfig, time: DatabaseTime): Promise<number | Error> {
  const client = new Client(config);
  client.on("error", () => undefined);
  try {
    await client.connect();
    const askedMs = steadyClock.monotonicMs();
    const { rows } = await client.query<{ version: number; ms: number }>(
      `select current_setting('server_version_num')::int as version, ${clockColumn}`,
    );
    const [row] = rows;
    if (row !== undefined) time.saw(row.ms, askedMs);
    return row?.version ?? 0;
  } catch (error) {
    return error instanceof Error ? error : new Error("unknown error", { cause: error });
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Errors of a server that is not there yet (no listener, no name, starting up), as opposed to wrong passwords or names. */
function mayPass(error: Error): boolean {
  const code = "code" in error ? error.code : undefined;
  return ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "ECONNRESET", "57P03"].includes(String(code));
}

/** Host, port and database, without user and password. */
function placeOf(config: ClientConfig): string {
  const { host, port, database } = new Client(config);
  return host.startsWith("/") ? `${host}, database ${database}` : `${host}:${port}/${database}`;
}
