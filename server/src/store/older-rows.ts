// Makes steps of retention that delete rows of one table: those with a time before a limit, or
// those that meet a condition.
import { sql, type RawBuilder } from "kysely";
import type { RemovalStep } from "#lib/retention.ts";
import { changeRows, type Db } from "./database.ts";
import type { Tables } from "./tables.ts";

type StepOptions = Pick<RemovalStep, "name" | "batchMax">;

/**
 * The step that deletes rows with a time before `before`, in no order; skips locked rows. The table
 * must have an index on the time.
 */
export function olderRows<Table extends keyof Tables>(
  db: Db,
  rows: StepOptions & {
    readonly table: Table;
    readonly time: keyof Tables[Table] & string;
    readonly before: Date;
  },
): RemovalStep {
  return rowsWhere(db, { ...rows, which: sql`${sql.ref(rows.time)} < ${rows.before}` });
}

/** The step that deletes the rows for which `which` is true, in no order; skips locked rows. */
export function rowsWhere(
  db: Db,
  rows: StepOptions & { readonly table: keyof Tables; readonly which: RawBuilder<unknown> },
): RemovalStep {
  const { name, batchMax, which } = rows;
  const table = sql.table(rows.table);
  const remove = (limit: number): Promise<number> => {
    const chosen = sql`select ctid from ${table} where ${which} limit ${limit} for update skip locked`;
    return changeRows(db)`delete from ${table} where ctid = any(array(${chosen}))`;
  };
  return { name, remove, batchMax };
}
