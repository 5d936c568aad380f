// The simple case of retention: rows of a table with a time column.
import { sql } from "kysely";
import type { RemovalStep } from "#lib/retention.ts";
import type { Db } from "./database.ts";
import type { Tables } from "./tables.ts";

/** The step that deletes rows with a time before `before`, in no order; skips locked rows. The table has an index on the time. */
export function olderRows<Table extends keyof Tables>(
  db: Db,
  rows: Pick<RemovalStep, "name" | "batchMax"> & {
    readonly table: Table;
    readonly time: keyof Tables[Table] & string;
    readonly before: Date;
  },
): RemovalStep {
  const { name, batchMax, before } = rows;
  const [table, time] = [sql.table(rows.table), sql.ref(rows.time)];
  const remove = async (limit: number): Promise<number> => {
    const old = sql`select ctid from ${table} where ${time} < ${before} limit ${limit} for update skip locked`;
    const result = await sql`delete from ${table} where ctid = any(array(${old}))`.execute(db);
    return Number(result.numAffectedRows ?? 0n);
  };
  return { name, remove, batchMax };
}
