// Reads the sizes of the database and its tables, for metrics and for operators, who see what grows
// before the disk is full.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";

/** The size in bytes of each table with its indexes, by the table's name. No order, no locks. */
export async function readTableSizes(db: Db): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ name: string; bytes: string }>`
    select relname as name, pg_total_relation_size(oid) as bytes
      from pg_class
     where relkind = 'r' and relnamespace = current_schema()::regnamespace`.execute(db);
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]));
}

/** The size of the whole database in bytes, including data of other programs. No locks. */
export async function readDatabaseBytes(db: Db): Promise<number> {
  const { rows } = await sql<{ bytes: string }>`
    select pg_database_size(current_database()) as bytes`.execute(db);
  return Number(rows[0]?.bytes);
}
