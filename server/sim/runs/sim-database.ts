// A real database whose clock the simulation moves, and that keeps every state a run was ever in.
// The schema `sim` stands before all others on the search path, so that each `clock_timestamp()`
// and `lease_clock()` of the product's statements is the simulation's.
import { Client, Pool, type QueryResult } from "pg";
import type { RunState } from "@slipway/contract/words.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import { clientConfig } from "#store/database.ts";

/** One change of a run's row, as the database saw it. */
export type Change = {
  readonly seq: number;
  readonly run_id: RunId;
  /** The connection that made it. */
  readonly backend: number;
  /** Null: the run was accepted. */
  readonly old_state: RunState | null;
  readonly new_state: RunState;
  readonly old_holder: string | null;
  readonly old_epoch: number | null;
  readonly new_epoch: number;
  /** The lease had run out when the change was made. */
  readonly was_expired: boolean | null;
  readonly attempt: number;
  readonly starts: number;
  readonly replica_id: ReplicaId | null;
  readonly retries_max: number;
  readonly status_code: number | null;
  readonly reason: string | null;
  readonly has_webhook: boolean;
};

/** All that is looked at after a statement, as of one moment. */
export type Look = {
  readonly changes: readonly Change[];
  readonly counts: Readonly<Partial<Record<RunState, number>>>;
  /** Ended runs whose deliveries are not as many as they have to be. */
  readonly misdelivered: readonly RunId[];
  /** Runs whose request is kept or deleted although it has to be the other way round. */
  readonly miskept: readonly RunId[];
};

/** What is kept of an ended run. */
export type KeptResult = { readonly status_code: number; readonly body: Buffer | null };

const schema = `
  create schema sim;
  create function sim.clock_timestamp() returns timestamptz language sql volatile as
    $$select pg_catalog.to_timestamp(pg_catalog.current_setting('sim.ms')::float8 / 1000)$$;
  create function sim.lease_clock() returns timestamptz language sql volatile as 'select sim.clock_timestamp()';
  create table sim.history (
    seq bigint generated always as identity, run_id uuid, backend integer, old_state text, new_state text,
    old_holder text, old_epoch bigint, new_epoch bigint, was_expired boolean, attempt smallint, starts integer, replica_id text, retries_max smallint,
    status_code smallint, reason text, has_webhook boolean);
  create function sim.keep() returns trigger language plpgsql as $$
  begin
    insert into sim.history (run_id, backend, old_state, new_state, old_holder, old_epoch, new_epoch, was_expired,
                             attempt, starts, replica_id, retries_max, status_code, reason, has_webhook)
    values (new.id, pg_catalog.pg_backend_pid(), old.state, new.state, old.lease_holder, old.lease_epoch,
            new.lease_epoch, old.lease_until < sim.clock_timestamp(), new.attempt, new.starts, new.replica_id, new.retries_max, new.status_code,
            new.reason, new.webhook_endpoint is not null);
    return null;
  end $$;
  create trigger keep_new after insert on public.runs for each row execute function sim.keep();
  create trigger keep_changed after update on public.runs for each row
    when (old.state not in ('pending', 'queued', 'running')
          or (old.state, old.attempt, old.lease_epoch, old.lease_holder, old.status_code, old.reason)
             is distinct from (new.state, new.attempt, new.lease_epoch, new.lease_holder, new.status_code, new.reason))
    execute function sim.keep();
  -- What is known of a table decides on the order in which its rows are found: it must not depend on when a worker came by.
  do $$
  declare one record;
  begin
    for one in select nspname, relname from pg_class join pg_namespace n on n.oid = relnamespace
                where nspname in ('public', 'sim') and relkind = 'r' loop
      execute format('alter table %I.%I set (autovacuum_enabled = off)', one.nspname, one.relname);
    end loop;
  end $$;
  -- Defaults were bound to the server's own clock when the tables were made; replicas and the audit log stand here
  -- without the projects and builds that they belong to.
  do $$
  declare one record;
  begin
    for one in select c.relname, a.attname from pg_attrdef d join pg_class c on c.oid = d.adrelid
                 join pg_attribute a on a.attrelid = c.oid and a.attnum = d.adnum
                where pg_get_expr(d.adbin, d.adrelid) = 'pg_catalog.clock_timestamp()' loop
      execute format('alter table public.%I alter column %I set default sim.clock_timestamp()', one.relname, one.attname);
    end loop;
    for one in select c.relname, k.conname from pg_constraint k join pg_class c on c.oid = k.conrelid
                where k.contype = 'f' and c.relname in ('replicas', 'audit_log') loop
      execute format('alter table public.%I drop constraint %I', one.relname, one.conname);
    end loop;
  end $$;`;

const look = `
  with fresh as (delete from sim.history returning *),
  delivered as (select run_id, count(*) as number from public.webhook_deliveries group by run_id)
  select (select json_agg(fresh order by seq) from fresh) as changes,
         (select json_object_agg(state, number) from (select state, count(*) as number from public.runs group by state) as s)
           as counts,
         (select json_agg(id) from public.runs left join delivered on delivered.run_id = id
           where coalesce(delivered.number, 0) <>
                 (webhook_endpoint is not null and state in ('success', 'failure', 'timeout'))::int) as misdelivered,
         (select json_agg(id) from public.runs left join public.run_requests on run_id = id
           where (run_id is null) <> (state in ('success', 'cancelled'))) as miskept`;

/**
 * A deadlock is found by the one that closes the circle, at once; plans do not depend on how often
 * they were used.
 */
const options =
  "-c search_path=sim,pg_catalog,public -c deadlock_timeout=1ms -c plan_cache_mode=force_generic_plan -c sim.ms=0";

/** More than all platforms together open in answer to one event. */
const stockMin = 32;

/** One database for many seeds, one after the other. */
export class SimDatabase {
  readonly #pool: Pool;
  readonly #free: Client[] = [];
  readonly #config: ReturnType<typeof clientConfig>;
  readonly #clients: Client[] = [];
  /** Tables that are written to before any seed. */
  #stock: ReadonlySet<string> = new Set();

  private constructor(url: Secret) {
    this.#config = { ...clientConfig(url), options };
    this.#pool = new Pool({ ...this.#config, max: 2 });
    // The server may be gone before the last connection is closed.
    this.#pool.on("error", () => undefined);
  }

  /** `url`: of a migrated database that nothing else uses. */
  static async open(url: Secret): Promise<SimDatabase> {
    const database = new SimDatabase(url);
    await database.#pool.query(schema);
    database.#stock = new Set(await database.#written());
    return database;
  }

  /**
   * Nothing of an earlier seed is left: each table that was written to is as if it had just been
   * made.
   */
  async reset(): Promise<void> {
    const written = (await this.#written()).filter((table) => !this.#stock.has(table));
    // The audit log lets nothing be removed: its triggers are off for this.
    const emptied = `set local session_replication_role = replica; truncate ${written.join(", ")} restart identity cascade`;
    if (written.length > 0) await this.#pool.query(emptied);
  }

  /** The database's clock, as each connection is told of it before a statement; it may go back. */
  timeMs = 0;

  async look(): Promise<Look> {
    const { rows } = await this.#pool.query<{ [Name in keyof Look]: Look[Name] | null }>({
      name: "look",
      text: look,
    });
    const found = rows[0];
    const { changes, counts, misdelivered, miskept } = found ?? {};
    return {
      changes: changes ?? [],
      counts: counts ?? {},
      misdelivered: misdelivered ?? [],
      miskept: miskept ?? [],
    };
  }

  async result(runId: RunId): Promise<KeptResult | undefined> {
    const { rows } = await this.#pool.query<KeptResult>(
      "select status_code, body from public.run_results where run_id = $1",
      [runId],
    );
    return rows[0];
  }

  /** A statement of nobody's in the simulation. */
  async query(text: string, parameters: readonly unknown[]): Promise<QueryResult> {
    return await this.#pool.query(text, [...parameters]);
  }

  /**
   * True when the statement under way on this connection waits for another one's lock, and neither
   * ends in a deadlock.
   */
  async isBlocked(client: Client): Promise<boolean> {
    const text = `
      with recursive blocking (pid) as (
        select unnest(pg_blocking_pids($1)) union select unnest(pg_blocking_pids(pid)) from blocking)
      select count(*) > 0 and not bool_or(pid = $1) as blocked from blocking`;
    const query = { name: "blocked", text, values: [backendOf(client)] };
    const { rows } = await this.#pool.query<{ blocked: boolean }>(query);
    return rows[0]?.blocked === true;
  }

  /** Tables with anything on disk, be it rows that were deleted. */
  async #written(): Promise<string[]> {
    const { rows } = await this.#pool.query<{ name: string }>(
      `select format('%I.%I', nspname, relname) as name from pg_class join pg_namespace n on n.oid = relnamespace
        where nspname in ('public', 'sim') and relkind = 'r' and pg_relation_size(pg_class.oid) > 0`,
    );
    return rows.map(({ name }) => name);
  }

  /** Ends the statement under way on this connection. */
  async cancel(client: Client): Promise<void> {
    await this.#pool.query("select pg_catalog.pg_cancel_backend($1)", [backendOf(client)]);
  }

  /**
   * Sees to it that there are connections to take: opening one takes real time, which must not
   * decide any order.
   */
  async stock(): Promise<void> {
    while (this.#free.length < stockMin) {
      const client = new Client(this.#config);
      client.on("error", () => undefined);
      await client.connect();
      this.#clients.push(client);
      this.#free.push(client);
    }
  }

  /** A connection for a simulated platform. */
  take(): Client {
    const client = this.#free.pop();
    if (client === undefined)
      throw new Error("more connections were opened at once than are in stock");
    return client;
  }

  /** Takes a connection back, without a transaction. */
  giveBack(client: Client): void {
    this.#free.push(client);
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.end()));
    await this.#pool.end();
  }
}

/** The number by which the server knows the connection. */
export function backendOf(client: Client): number {
  const { processID } = client as Client & { readonly processID: number };
  return processID;
}
