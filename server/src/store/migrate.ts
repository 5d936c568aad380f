// Migrates a database to the schema of this version: applies the files in migrations/ in order,
// each in one transaction, forward only. A checksum of each applied file is recorded, so that
// changed files are detected. After the files, the platform's own role gets the rights it needs.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { ownFiles } from "#lib/own-files.ts";
import { migrationLock } from "./advisory-locks.ts";
import { clientConfig } from "./database.ts";
import { prepareRuntimeRole } from "./runtime-role.ts";

export type Migration = { readonly name: string; readonly sql: string; readonly checksum: string };
/** A migration that a database has. */
export type Applied = { readonly name: string; readonly checksum: string };

const fileForm = /^(\d{4}-[a-z0-9-]+)\.sql$/;

/** The longest wait for a lock: another platform may be in the middle of a long migration. */
const lockWaitMs = 600_000;

/**
 * Applies missing migrations; returns their names. Throws `CannotStart` when the database does not
 * fit this version's files.
 */
export async function migrate(options: {
  url: Secret;
  log: Log;
  folder?: string;
}): Promise<string[]> {
  const files = readMigrations(options.folder ?? ownFiles.migrations);
  const client = new Client({ ...clientConfig(options.url), lock_timeout: lockWaitMs });
  client.on("error", (error) =>
    options.log.warn({ err: error }, "the migration's connection broke"),
  );
  await client.connect();
  try {
    await client.query("select pg_advisory_lock($1)", [migrationLock]);
    await makeMigrationTable(client);
    const applied = await appliedMigrations(client);
    const missing = planMigrations(files, applied);
    // A new database gets all migrations, which take no time on empty tables, so they are not
    // logged as info.
    const isNew = applied.length === 0;
    if (isNew) options.log.info({ migrations: missing.length }, "creating the database");
    for (const migration of missing) {
      const level = isNew ? "debug" : "info";
      options.log[level]({ migration: migration.name }, "migrating the database");
      await apply(client, migration);
    }
    await prepareRuntimeRole(client, options.log);
    return missing.map((migration) => migration.name);
  } finally {
    // The lock ends with the connection.
    await client.end();
  }
}

/** Makes the table of migrations unless it is there. */
export async function makeMigrationTable(client: Client): Promise<void> {
  await client.query(
    "create table if not exists schema_migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())",
  );
}

/** The migrations of a database in their order. No locks. */
export async function appliedMigrations(client: Client): Promise<Applied[]> {
  const { rows } = await client.query<Applied>(
    "select name, checksum from schema_migrations order by name",
  );
  return rows;
}

/** The migrations of a folder in order. */
export function readMigrations(folder: string): Migration[] {
  // The name of another file does not match, and the empty list adds nothing to the names.
  const names = readdirSync(folder).flatMap((file) => fileForm.exec(file)?.[1] ?? []);
  return names.toSorted().map((name) => {
    const sql = readFileSync(join(folder, `${name}.sql`), "utf8");
    return { name, sql, checksum: createHash("sha256").update(sql).digest("hex") };
  });
}

/**
 * The files that are still to be applied. The applied ones must be the first files, unchanged;
 * otherwise throws `CannotStart`.
 */
export function planMigrations(
  files: readonly Migration[],
  applied: readonly Applied[],
): Migration[] {
  for (const [index, row] of applied.entries()) {
    const file = files[index];
    if (file?.name === row.name && file.checksum === row.checksum) continue;
    if (file?.name === row.name) {
      throw new CannotStart(
        `The migration ${row.name} was changed after it was applied to this database. Start the version that applied it, or use an empty database.`,
      );
    }
    const lack = file === undefined ? "does not know" : `does not have before ${file.name}`;
    throw new CannotStart(
      `The database has the migration ${row.name}, which this version ${lack}: it was used by a newer or another version. Start that version.`,
    );
  }
  return files.slice(applied.length);
}

async function apply(client: Client, migration: Migration): Promise<void> {
  await client.query("begin");
  try {
    await client.query(migration.sql);
    await client.query("insert into schema_migrations (name, checksum) values ($1, $2)", [
      migration.name,
      migration.checksum,
    ]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw new Error(`the migration ${migration.name} failed`, { cause: error });
  }
}
