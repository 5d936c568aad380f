// Copies the whole database, for backups: reads it in one snapshot, and fills an empty database
// with what was read. Reading and filling use connections of their own, as the owner of the tables.
// A copy has the rows alone: the migrations that the snapshot names make the tables again.
import { finished } from "node:stream/promises";
import type { Readable, Writable } from "node:stream";
import { Client } from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { CannotStart } from "#lib/cannot-start.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";
import { ownFiles } from "#lib/own-files.ts";
import type { Secret } from "#lib/secret.ts";
import { migrationLock } from "./advisory-locks.ts";
import { clientConfig } from "./database.ts";
import { appliedMigrations, makeMigrationTable, readMigrations, type Applied } from "./migrate.ts";

/** A table as it was copied. */
export type CopiedTable = {
  readonly name: string;
  readonly columns: readonly string[];
  /** The columns that the database numbers, with the last number of each; null: none was given. */
  readonly numbered: readonly { readonly column: string; readonly last: string | null }[];
};

/** What the copy of a database has beside its rows. */
export type CopiedDatabase = {
  readonly migrations: readonly Applied[];
  readonly tables: readonly CopiedTable[];
};

/** The database at one moment. The platform goes on writing while the snapshot is open. */
export type DatabaseSnapshot = AsyncDisposable & {
  readonly content: CopiedDatabase;
  /** The rows of a table, as PostgreSQL's COPY writes them. Read one table after the other. */
  readonly rows: (table: CopiedTable) => Readable;
};

/** A database that is being filled. All of it is one transaction. */
export type DatabaseFill = AsyncDisposable & {
  /** Takes the rows of a table. Resolves once the database has them. */
  readonly load: (table: CopiedTable, rows: Readable) => Promise<void>;
  /** Keeps everything. Without it, disposal leaves the database empty. */
  readonly commit: () => Promise<void>;
};

/** A copy of a very large database to a slow place may take hours. */
const copyMs = 12 * 3_600_000;
/** The longest wait for a lock: a migration that has just begun ends within this time. */
const lockWaitMs = 60_000;
/** PostgreSQL's code for a table that is not there. */
const undefinedTable = "42P01";

async function connect(url: Secret, log: Log): Promise<Client> {
  const client = new Client({
    ...clientConfig(url),
    statement_timeout: copyMs,
    idle_in_transaction_session_timeout: copyMs,
    lock_timeout: lockWaitMs,
  });
  client.on("error", (error) => log.debug({ err: error }, "the connection of a copy broke"));
  await client.connect();
  return client;
}

/** Opens a snapshot of the database. Throws `CannotStart` when it has no tables of a platform. */
export async function openSnapshot(url: Secret, log: Log): Promise<DatabaseSnapshot> {
  const client = await connect(url, log);
  try {
    // The texts of values must be exact, and not depend on the settings of this database.
    await client.query(
      "set datestyle = 'ISO'; set intervalstyle = 'postgres'; set extra_float_digits = 3",
    );
    // No migration may change the tables between the first look at them and the locks on them.
    await client.query("select pg_advisory_lock_shared($1)", [migrationLock]);
    await client.query("begin isolation level repeatable read read only");
    const migrations = await migrationsIn(client);
    const tables = await readTables(client);
    const names = tables.map(({ name }) => client.escapeIdentifier(name)).join(", ");
    await client.query(`lock table ${names} in access share mode`);
    await client.query("select pg_advisory_unlock_shared($1)", [migrationLock]);
    return {
      content: { migrations, tables },
      rows: (table) => client.query(copyTo(`copy ${withColumns(client, table)} to stdout`)),
      [Symbol.asyncDispose]: () => client.end(),
    };
  } catch (error) {
    await client.end();
    throw error;
  }
}

async function migrationsIn(client: Client): Promise<readonly Applied[]> {
  try {
    return await appliedMigrations(client);
  } catch (error) {
    if (errorCode(error) !== undefinedTable) throw error;
    throw new CannotStart("The database is empty: no platform has used it yet.", { cause: error });
  }
}

/** The tables in the order of their names. No locks. */
async function readTables(client: Client): Promise<CopiedTable[]> {
  const { rows } = await client.query<CopiedTable>(
    `select c.relname as name,
            array(select a.attname::text from pg_attribute a
                   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
                   order by a.attnum) as columns,
            (select coalesce(jsonb_agg(jsonb_build_object('column', a.attname, 'last',
                      pg_sequence_last_value(pg_get_serial_sequence(quote_ident(c.relname), a.attname)::regclass)::text)), '[]')
               from pg_attribute a where a.attrelid = c.oid and a.attidentity <> '') as numbered
       from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' order by c.relname`,
  );
  return rows;
}

/** The table with the list of its columns, for COPY. */
function withColumns(client: Client, { name, columns }: CopiedTable): string {
  const names = columns.map((column) => client.escapeIdentifier(column)).join(", ");
  return `${client.escapeIdentifier(name)} (${names})`;
}

/** Throws `CannotStart` unless the database is empty. */
export async function requireEmptyDatabase(url: Secret, log: Log): Promise<void> {
  const client = await connect(url, log);
  try {
    await refuseTables(client);
  } finally {
    await client.end();
  }
}

/** Looks for tables, with partitions or without, views, materialized views and sequences. */
async function refuseTables(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_class
      where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S')
      order by relname limit 1`,
  );
  if (rows[0] === undefined) return;
  throw new CannotStart(
    `The database is not empty: it has ${rows[0].name}. Restore into an empty database (SLIPWAY_DATABASE_URL).`,
  );
}

/**
 * The texts of the migrations that made the copied database. Throws `CannotStart` when this version
 * does not have them all.
 */
export function migrationsOf(
  { migrations }: CopiedDatabase,
  folder = ownFiles.migrations,
): string[] {
  const files = readMigrations(folder);
  return migrations.map(({ name, checksum }, index) => {
    const file = files[index];
    if (file?.name === name && file.checksum === checksum) return file.sql;
    throw new CannotStart(
      `The backup has the migration ${name}, which this version does not have: a newer or another version made the backup. Restore it with that version.`,
    );
  });
}

/**
 * Opens an empty database for the content of a copy. Throws `CannotStart` when it is not empty, or
 * when this version does not know the copy's migrations.
 */
export async function openFill(
  url: Secret,
  content: CopiedDatabase,
  log: Log,
): Promise<DatabaseFill> {
  const client = await connect(url, log);
  try {
    // A platform that starts on this database meanwhile waits until the connection ends.
    await client.query("select pg_advisory_lock($1)", [migrationLock]);
    await client.query("begin");
    await refuseTables(client);
    await makeMigrationTable(client);
    for (const migration of migrationsOf(content)) await client.query(migration);
    // Makes the checks that migrations have deferred: no table with a check to come can be altered.
    await client.query("set constraints all immediate");
    const madeTables = (await readTables(client)).map(({ name }) => name);
    const names = madeTables.map((name) => client.escapeIdentifier(name));
    const triggers = await storedTriggers(client);
    for (const name of names) await client.query(`alter table ${name} disable trigger user`);
    const keys = await dropForeignKeys(client);
    // Removes the rows that the migrations have written.
    await client.query(`truncate ${names.join(", ")}`);
    return {
      load: async (table, rows) => {
        if (!madeTables.includes(table.name)) {
          log.warn({ table: table.name }, "this table is none of the platform's and is left out");
          // Reads the rows and drops them, since those of the next table come after them.
          await finished(rows.resume());
          return;
        }
        const copying = client.query(copyFrom(`copy ${withColumns(client, table)} from stdin`));
        await copyInto(copying, rows);
      },
      commit: async () => {
        for (const { name, numbered } of content.tables) {
          for (const { column, last } of numbered) {
            if (last === null) continue;
            await client.query(
              "select setval(pg_get_serial_sequence(quote_ident($1), $2), $3::bigint)",
              [name, column, last],
            );
          }
        }
        // Adding the foreign keys checks that every row to which another one refers is there.
        for (const statement of [...keys, ...triggers]) await client.query(statement);
        await client.query("commit");
        await client.query("analyze");
      },
      [Symbol.asyncDispose]: () => client.end(),
    };
  } catch (error) {
    await client.end();
    throw error;
  }
}

async function copyInto(table: Writable, rows: Readable): Promise<void> {
  // `pipe` does not pass on errors.
  rows.on("error", (error) => table.destroy(error));
  await finished(rows.pipe(table));
}

/** Statements that turn each trigger on again as it was. */
async function storedTriggers(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ statement: string }>(
    `select format('alter table %s enable %s trigger %I', tgrelid::regclass,
                   case tgenabled when 'A' then 'always' when 'R' then 'replica' else '' end, tgname) as statement
       from pg_trigger where not tgisinternal and tgenabled <> 'D'
        and tgrelid in (select oid from pg_class where relnamespace = current_schema()::regnamespace)`,
  );
  return rows.map(({ statement }) => statement);
}

/**
 * Drops the foreign keys, so that tables can be filled in any order; returns the statements that
 * add them again.
 */
async function dropForeignKeys(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ removal: string; addition: string }>(
    `select format('alter table %s drop constraint %I', conrelid::regclass, conname) as removal,
            format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as addition
       from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace`,
  );
  for (const { removal } of rows) await client.query(removal);
  return rows.map(({ addition }) => addition);
}
