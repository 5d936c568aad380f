// Lets only one platform work on a database. The lock is a session lock (`pg_advisory_lock`) on a
// connection of its own, so it always ends with its holder. When the connection breaks while the
// platform lives, it takes the lock again; if another platform was faster, this platform must end.
// The row in `instances` names the holder.
import { hostname } from "node:os";
import type { Client } from "pg";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { platformLock } from "./advisory-locks.ts";
import { KeptConnection } from "./kept-connection.ts";

export type DatabaseLockOptions = {
  readonly url: Secret;
  readonly instanceId: string;
  readonly dataDir: string;
  readonly log: Log;
  readonly clock: Clock;
};

/** How long to wait for a holder that is stopping or was just killed. */
const lockWaitMs = 3_000;
/** The server gives up a connection to a lost machine after about 25 s, instead of two hours. */
const keepAlive =
  "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3";
/** PostgreSQL's code for a lock that another session held for longer than `lock_timeout`. */
const lockNotAvailable = "55P03";

/**
 * The server process of a connection. Its start time is needed too, since another process may get
 * the same id later.
 */
type Session = { readonly pid: number; readonly since: string };
/** The platform that has the lock: its connection's server process, and a name for messages. */
type Holder = { readonly connectionPid: number; readonly name: string };

/** Call `start()`, then `announce()` once the tables exist; `stop()` releases the lock. */
export class DatabaseLock {
  /**
   * Resolves with a message for the operator when another platform has taken the lock, so that this
   * one must end.
   */
  readonly lost: Promise<string>;
  readonly #lost = Promise.withResolvers<string>();
  readonly #options: DatabaseLockOptions;
  readonly #connection: KeptConnection;
  #session: Session | undefined;
  /** Undefined until `announce` is called. */
  #installationId: string | undefined;

  constructor(options: DatabaseLockOptions) {
    this.#options = options;
    this.lost = this.#lost.promise;
    const { url, log, clock } = options;
    this.#connection = new KeptConnection({
      url,
      log,
      purpose: "the lock on the database",
      prepare: (client) => this.#take(client),
      clock,
    });
  }

  /** Throws `CannotStart`, naming the holder, when another platform has the lock. */
  async start(): Promise<void> {
    await this.#connection.start();
  }

  /** Writes the row that names this platform as the holder. */
  async announce(installationId: string): Promise<void> {
    this.#installationId = installationId;
    const { client } = this.#connection;
    // Without a client, a broken connection is being replaced, and `#take` announces the new one.
    if (client !== undefined) await this.#announce(client);
  }

  async stop(): Promise<void> {
    await this.#connection.stop();
  }

  async #take(client: Client): Promise<void> {
    await client.query(`${keepAlive}; set lock_timeout = ${lockWaitMs}`);
    // Ends our previous session, in case the server has not noticed that its connection is gone.
    const previous = this.#session;
    if (previous !== undefined) await client.query(endSession, [previous.pid, previous.since]);
    try {
      await client.query("select pg_advisory_lock($1)", [platformLock]);
    } catch (error) {
      const isTaken = error instanceof Error && errorCode(error) === lockNotAvailable;
      if (!isTaken) throw error;
      throw await this.#refusal(client, error);
    }
    const { rows } = await client.query<Session>(ownSession);
    [this.#session] = rows;
    if (this.#installationId !== undefined) await this.#announce(client);
  }

  /**
   * The error to throw when another session has the lock: `CannotStart` at the start. When this
   * platform has had the lock before, returns `cause`, and resolves `lost` if another platform has
   * the lock.
   */
  async #refusal(client: Client, cause: Error): Promise<Error> {
    const holder = await findHolder(client);
    if (this.#session === undefined) return new CannotStart(refusalText(holder), { cause });
    // The holder may still be our own previous session, which is about to end.
    const isOther = holder !== undefined && holder.connectionPid !== this.#session.pid;
    if (isOther) this.#lost.resolve(lostText(holder));
    return cause;
  }

  async #announce(client: Client): Promise<void> {
    const { instanceId, dataDir } = this.#options;
    await client.query(
      `insert into instances (id, host, pid, data_dir, connection_pid, locked_at, installation_id)
       values ($1, $2, $3, $4, pg_backend_pid(), clock_timestamp(), $5)
       on conflict (id) do update set host = excluded.host, pid = excluded.pid, data_dir = excluded.data_dir,
         connection_pid = excluded.connection_pid, locked_at = excluded.locked_at,
         installation_id = excluded.installation_id`,
      [instanceId, hostname(), process.pid, dataDir, this.#installationId],
    );
  }
}

const ownSession =
  "select pid, backend_start::text as since from pg_stat_activity where pid = pg_backend_pid()";
const endSession =
  "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start = $2::timestamptz";

/** The current holder of the lock; undefined when there is none. */
async function findHolder(client: Client): Promise<Holder | undefined> {
  // For a lock whose key is one number, `pg_locks` shows the upper half of the number, which is 0
  // here, as `classid`, and the lower half as `objid`; `objsubid` is 1.
  const { rows } = await client.query<{ pid: number; has_table: boolean }>(
    `select pid, to_regclass('instances') is not null as has_table from pg_locks
      where locktype = 'advisory' and classid = 0 and objid = $1 and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())`,
    [platformLock],
  );
  const [lock] = rows;
  if (lock === undefined) return undefined;
  const name = lock.has_table ? await nameOfHolder(client, lock.pid) : undefined;
  return { connectionPid: lock.pid, name: name ?? "one that is just starting" };
}

/** Names the platform with this connection; undefined: it has not announced itself. */
async function nameOfHolder(client: Client, connectionPid: number): Promise<string | undefined> {
  const { rows } = await client.query<{ host: string; pid: number; data_dir: string }>(
    "select host, pid, data_dir from instances where connection_pid = $1 order by locked_at desc limit 1",
    [connectionPid],
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  return `process ${row.pid} on host ${row.host}, data folder ${row.data_dir}`;
}

function refusalText(holder: Holder | undefined): string {
  const who = holder === undefined ? "" : ` (${holder.name})`;
  return (
    `Another platform${who} is using this database, and two would each run replicas of every app. ` +
    `Stop that one, or give this one its own database with SLIPWAY_DATABASE_URL. ` +
    `If it was killed, or its machine is gone, the database notices within half a minute: start again then.`
  );
}

function lostText(holder: Holder): string {
  return (
    `The connection that held the lock on the database broke, and another platform (${holder.name}) has the lock now. ` +
    `This platform exits, because two would each run replicas of every app; its replicas keep running without calls until it is started again.`
  );
}
