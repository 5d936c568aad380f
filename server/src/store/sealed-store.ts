// Queries on the sealed data of all areas: the secret keys that it needs, and its re-encryption
// after a rotation of the secret key. Each area lists its own columns; `platform.ts` passes the
// lists to the store.
import { sql, type Selectable } from "kysely";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "./database.ts";
import type { Tables } from "./tables.ts";

/**
 * A column of sealed texts (`v1.<key id>.…`, see lib/seal.ts). Null and empty values are not
 * sealed.
 */
export type SealedColumn = {
  readonly table: string;
  readonly column: string;
  /** Columns of the row that `contextOf` reads. */
  readonly keys: readonly string[];
  /** The context with which the text of a row was sealed. */
  readonly contextOf: (row: object) => string;
};

/** How many texts are re-encrypted at once. */
const batchMax = 1_000;

/** Describes one column, for the list of an area. */
export function sealedColumn<
  Table extends keyof Tables,
  Key extends keyof Selectable<Tables[Table]> & string,
>(
  table: Table,
  column: keyof Selectable<Tables[Table]> & string,
  keys: readonly Key[],
  contextOf: (row: Pick<Selectable<Tables[Table]>, Key>) => string,
): SealedColumn {
  return { table, column, keys, contextOf: contextOf as SealedColumn["contextOf"] };
}

/** Ids of all keys that sealed anything in the columns. */
export async function sealingKeyIds(db: Db, columns: readonly SealedColumn[]): Promise<string[]> {
  const ids = new Set<string>();
  for (const { table, column } of columns) {
    const { rows } = await sql<{ id: string }>`
      select distinct split_part(${sql.ref(column)}, '.', 2) as id from ${sql.table(table)}
       where ${sql.ref(column)} is not null and split_part(${sql.ref(column)}, '.', 2) <> ''`.execute(
      db,
    );
    for (const { id } of rows) ids.add(id);
  }
  return [...ids].sort();
}

/**
 * Re-encrypts with the first key all texts that an older key sealed, in batches; returns the number
 * of texts. Safe to repeat, and concurrent changes win.
 */
export async function resealOld(
  db: Db,
  sealer: Sealer,
  columns: readonly SealedColumn[],
): Promise<number> {
  let total = 0;
  for (const column of columns) {
    let count: number;
    do {
      count = await resealBatch(db, sealer, column);
      total += count;
    } while (count === batchMax);
  }
  return total;
}

async function resealBatch(
  db: Db,
  sealer: Sealer,
  { table, column, keys, contextOf }: SealedColumn,
): Promise<number> {
  // The first key is the one that seals.
  const [current = ""] = sealer.keyIds();
  const sealed = sql.ref(column);
  // The list of further columns begins with `ctid`, since `keys` may be empty and a list may not.
  const { rows } = await sql<{ address: string; sealed: string }>`
    select ctid::text as address, ${sealed} as sealed, ${sql.join(["ctid", ...keys].map((key) => sql.ref(key)))}
      from ${sql.table(table)}
     where ${sealed} is not null and split_part(${sealed}, '.', 2) not in (${current}, '')
     limit ${batchMax}`.execute(db);
  if (rows.length === 0) return 0;
  const newer = rows.map((row) => {
    const context = contextOf(row);
    return sealer.seal(sealer.open(row.sealed, context).reveal(), context);
  });
  await sql`
    update ${sql.table(table)} as changed set ${sealed} = resealed.newer
      from unnest(${rows.map((row) => row.address)}::text[], ${rows.map((row) => row.sealed)}::text[], ${newer}::text[])
           as resealed (address, sealed, newer)
     where changed.ctid = resealed.address::tid and changed.${sealed} = resealed.sealed`.execute(
    db,
  );
  return rows.length;
}
