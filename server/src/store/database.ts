// Connections to PostgreSQL and typed queries on them. The types are in `store/tables.ts`, the
// queries in the `*-store.ts` files of each area. Every statement and every wait for a connection
// or a lock has a deadline; no statement may change append-only data (runtime-role.ts). In
// statements `clock_timestamp()` is the platform's time (database-time.ts); `now()` and column
// defaults are the server's.
import { Kysely, sql, type InsertObject, type SelectQueryBuilder, type Transaction } from "kysely";
import { Client, Pool, types, type ClientBase, type ClientConfig } from "pg";
import { assert, must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { steadyClock } from "#lib/steady-clock.ts";
import type { DatabaseCounts } from "./database-counts.ts";
import { DatabaseTime, TimedDialect } from "./database-time.ts";
import { takeRuntimeRole } from "./runtime-role.ts";
import type { Tables } from "./tables.ts";

/** The database, for single statements and for starting transactions. */
export type Db = Kysely<Tables>;
/** A running transaction. Functions that must be part of one take it as a parameter. */
export type Tx = Transaction<Tables>;

export type DatabaseOptions = {
  readonly url: Secret;
  /** The maximum number of open connections. */
  readonly connections: number;
  readonly log: Log;
  /** How long to wait for a server that is starting or not there yet; 15 s by default. */
  readonly reachWaitMs?: number;
  readonly clock: Clock;
  readonly counts: DatabaseCounts;
};

/** The first version of PostgreSQL with `unique nulls not distinct`. */
const majorMin = 15;
/** How long connecting may take, or the wait for a free connection. */
const connectWaitMs = 10_000;
/** How long a statement may take. */
const statementMs = 30_000;
/** How much longer to wait for an answer after the server's own statement timeout. */
const answerMarginMs = 5_000;
/** How long a statement waits for a lock before it fails. */
const lockWaitMs = 10_000;
/** A transaction idle for this long belongs to a request that hangs; it must not keep its locks. */
const idleInTransactionMs = 60_000;
/** After how long an unused connection is closed. */
const idleConnectionMs = 60_000;
/** How long to wait before a server that is not there yet is asked again. */
const retryPauseMs = 250;

/**
 * Connects and checks the server. Close with `destroy()`. Throws `CannotStart` when the server
 * cannot be reached or is too old.
 */
export async function openDatabase(options: DatabaseOptions): Promise<Db> {
  const config = clientConfig(options.url);
  const { clock, counts } = options;
  const time = new DatabaseTime({
    clock: steadyClock,
    log: options.log,
    // Called only for statements, which run on the pool that is made below.
    ask: () => askClock(pool),
  });
  await checkServer(config, options, time);
  const pool = new Pool({
    ...config,
    max: options.connections,
    idleTimeoutMillis: idleConnectionMs,
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: idleInTransactionMs,
    lock_timeout: lockWaitMs,
    // This hook belongs to the pool and not to the query builder: a connection that breaks during a
    // hook of the query builder would never return to the pool.
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, which its types do not say yet
    onConnect: async (client) => {
      cutWithoutAnswer(client, statementMs + answerMarginMs, clock);
      await prepareConnection(client);
    },
  });
  // An idle connection breaks when the server restarts. The pool has already dropped it by then.
  pool.on("error", (error) => options.log.warn({ err: error }, "a database connection broke"));
  // When a connection breaks between two statements of a transaction, nothing else listens for the
  // error, which would then end the process. The next statement on the connection fails.
  pool.on("connect", (client) => {
    client.on("error", (error: Error) =>
      options.log.debug({ err: error }, "a database connection in use broke"),
    );
  });
  const counted = counts.over(pool, () => clock.monotonicMs());
  return new Kysely<Tables>({
    dialect: new TimedDialect({ pool: counted }, time),
    log: counts.onEvent,
  });
}

/**
 * The column with the server's own clock. The statements that have it do not pass through the query
 * builder, which would put the platform's time in place of `clock_timestamp()`.
 */
const clockColumn = "extract(epoch from clock_timestamp())::float8 * 1000 as ms";

async function askClock(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(`select ${clockColumn}`);
  return must(rows[0], "a select without a table has one row").ms;
}

async function prepareConnection(client: ClientBase): Promise<void> {
  // The server's default may be another isolation level. A statement that numbers entries of an
  // audit log must see what was committed a moment ago.
  await client.query("set default_transaction_isolation = 'read committed'");
  await client.query(takeRuntimeRole);
}

/** Settings of every platform connection. Throws `CannotStart` when the URL cannot be parsed. */
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
    // The parser's error contains the whole URL with the password, so it is not kept as the cause.
    throw new CannotStart("SLIPWAY_DATABASE_URL cannot be read as a URL (its value is not shown).");
  }
  return config;
}

type Parse = (text: string) => unknown;

/** Returns the driver's parser, except for int8, which the driver would return as text. */
function parserOf(oid: number, format?: "text" | "binary"): Parse {
  if (oid === types.builtins.INT8 && format !== "binary") return parseInt8;
  const parse: unknown =
    format === "binary" ? types.getTypeParser(oid, "binary") : types.getTypeParser(oid, "text");
  return parse as Parse;
}

/**
 * Parses an int8. Row numbers, counts and epochs stay far below 2^53; a larger value is a bug and
 * must not be rounded.
 */
function parseInt8(text: string): number {
  const value = Number(text);
  assert(
    Number.isSafeInteger(value),
    `the database returned ${text}, which is too large for a number`,
  );
  return value;
}

/** Waits until the server answers, and checks its version. Throws `CannotStart`. */
async function checkServer(
  config: ClientConfig,
  options: DatabaseOptions,
  time: DatabaseTime,
): Promise<void> {
  const { clock, reachWaitMs = 15_000, log } = options;
  const deadline = clock.monotonicMs() + reachWaitMs;
  for (;;) {
    const answer = await askVersion(config, time);
    if (typeof answer === "number") {
      // The last four digits are the minor version.
      if (Math.floor(answer / 10_000) >= majorMin) return;
      throw new CannotStart(
        `The database runs PostgreSQL ${Math.floor(answer / 10_000)}; ${majorMin} or newer is needed.`,
      );
    }
    if (!mayPass(answer) || clock.monotonicMs() >= deadline) {
      throw new CannotStart(`The database at ${hostOf(config)} cannot be used: ${answer.message}`, {
        cause: answer,
      });
    }
    log.info({ reason: answer.message }, "waiting for the database");
    await clock.sleep(retryPauseMs);
  }
}

/**
 * Returns the server's version in PostgreSQL's form (180004), or the error of asking for it. Also
 * tells `time` the server's clock.
 */
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
    // A select without a table has one row, so the 0 only satisfies the compiler.
    return row?.version ?? 0;
  } catch (error) {
    return error instanceof Error ? error : new Error("unknown error", { cause: error });
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * True for errors that pass once the server is there: nobody listens at the port or the socket, the
 * host has no address yet, or the server breaks the connection or is starting up (57P03). A wrong
 * password or name does not pass.
 */
function mayPass(error: Error): boolean {
  const code = "code" in error ? error.code : undefined;
  return ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "ECONNRESET", "57P03"].includes(
    String(code),
  );
}

/** Host, port and database, without user and password. */
function hostOf(config: ClientConfig): string {
  const { host, port, database } = new Client(config);
  // A host that begins with a slash is the folder of a Unix socket.
  return host.startsWith("/") ? `${host}, database ${database}` : `${host}:${port}/${database}`;
}

/** The tag of a template: `readRows(db)` and its siblings execute the SQL text that follows. */
type Statement<Result> = (text: TemplateStringsArray, ...values: unknown[]) => Promise<Result>;

/** Counts the rows of the query. */
export async function countRows<Known, From extends keyof Known>(
  rows: SelectQueryBuilder<Known, From, unknown>,
): Promise<number> {
  const counted = rows
    .select((row) => row.fn.countAll<number>().as("count"))
    .$castTo<{ readonly count: number }>();
  return (await counted.executeTakeFirstOrThrow()).count;
}

/**
 * Inserts the row unless another row has its key; true when it was inserted. Waits while a row with
 * that key is not committed.
 */
export async function insertNew<Name extends keyof Tables>(
  db: Db,
  table: Name,
  row: InsertObject<Tables, Name>,
): Promise<boolean> {
  const rows = db.insertInto(table).values(row);
  const added = await rows.onConflict((conflict) => conflict.doNothing()).executeTakeFirst();
  return added.numInsertedOrUpdatedRows === 1n;
}

/**
 * Inserts rows, which all have the same columns. Where a row with the same `keys` exists already,
 * its other columns are replaced.
 */
export async function putRows<Name extends keyof Tables>(
  db: Db,
  table: Name,
  keys: readonly (keyof Tables[Name] & string)[],
  ...rows: readonly InsertObject<Tables, Name>[]
): Promise<void> {
  if (rows.length === 0) return;
  const columns = Object.keys(rows[0] ?? {}).filter(
    (column) => !keys.some((key) => key === column),
  );
  const replaced = columns.map(
    (column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`,
  );
  const conflict = sql`on conflict (${sql.join(keys.map((key) => sql.ref(key)))}) do update set ${sql.join(replaced)}`;
  await db.insertInto(table).values(rows).modifyEnd(conflict).execute();
}

/** Executes the statement; returns its rows. */
export function readRows<Row>(db: Db): Statement<Row[]> {
  return async (text, ...values) => (await sql<Row>(text, ...values).execute(db)).rows;
}

/** Executes the statement; returns its first row, or undefined. */
export function readRow<Row>(db: Db): Statement<Row | undefined> {
  return async (text, ...values) => (await readRows<Row>(db)(text, ...values))[0];
}

/** Executes the statement; returns how many rows it inserted, updated or deleted. */
export function changeRows(db: Db): Statement<number> {
  return async (text, ...values) =>
    Number((await sql(text, ...values).execute(db)).numAffectedRows ?? 0n);
}

/** Executes the statement; true when it changed exactly one row. */
export function changeOne(db: Db): Statement<boolean> {
  return async (text, ...values) => (await changeRows(db)(text, ...values)) === 1;
}

type Query = (...parameters: readonly unknown[]) => unknown;
type Callback = (...answer: readonly unknown[]) => void;

/**
 * Cuts the connection when a statement on it gets no answer within `waitMs`; the statement then
 * fails, and its outcome is unknown. A server that hangs answers nothing, not even that a statement
 * took too long.
 */
function cutWithoutAnswer(client: ClientBase, waitMs: number, clock: Clock): void {
  // All overloads of `client.query` come down to this: it calls the last parameter if that is a
  // function, and returns a promise otherwise.
  const query = client.query.bind(client) as Query;
  // While a statement runs, `end` destroys the connection instead of closing it politely.
  const cut = (): void => void (client as ClientBase & { end(): Promise<void> }).end();
  const bounded: Query = (...parameters) => {
    const cancelCut = clock.after(waitMs, cut);
    const callback = parameters.at(-1);
    if (typeof callback === "function") {
      const reportAnswer: Callback = (...answer) => {
        cancelCut();
        (callback as Callback)(...answer);
      };
      return query(...parameters.slice(0, -1), reportAnswer);
    }
    const answer = query(...parameters) as Promise<unknown>;
    answer.then(cancelCut, cancelCut);
    return answer;
  };
  client.query = bounded as ClientBase["query"];
}
