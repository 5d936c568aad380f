// How large the tables of the database are, with their indexes, for metrics and operators: what
// grows is seen before the disk is full.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";

/** By name of the table, in bytes. */
export async function readTableSizes(db: Db): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ name: string; bytes: string }>`
    select relname as name, pg_total_relation_size(oid) as bytes
      from pg_class
     where relkind = 'r' and relnamespace = current_schema()::regnamespace`.execute(db);
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]));
}

/** All of the database, in bytes; what others keep in it, too. */
export async function readDatabaseBytes(db: Db): Promise<number> {
  const { rows } = await sql<{ bytes: string }>`
    select pg_database_size(current_database()) as bytes`.execute(db);
  return Number(rows[0]?.bytes);
}
