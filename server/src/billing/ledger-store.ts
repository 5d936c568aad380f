// Rows of the ledger, which is append-only.
import { sql, type Insertable, type Selectable } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { insertNew, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { Account, LedgerEntry } from "./entry.ts";

/**
 * Inserts a transaction; false when its reference exists. Waits for an uncommitted transaction with
 * the same reference.
 */
export async function insertTransaction(
  tx: Tx,
  row: Insertable<Tables["ledger_transactions"]>,
): Promise<boolean> {
  return await insertNew(tx, "ledger_transactions", {
    ...row,
    created_at: sql<Date>`clock_timestamp()`,
  });
}

/** Inserts the entries of a ledger transaction that this database transaction has inserted. */
export async function insertEntries(
  tx: Tx,
  transactionId: string,
  entries: readonly LedgerEntry[],
): Promise<void> {
  const rows = entries.map(({ account, applicationId, couponCode, amount }, number) => ({
    transaction_id: transactionId,
    number,
    account,
    application_id: applicationId,
    coupon_code: couponCode,
    amount_micros: String(amount.micros),
  }));
  await tx.insertInto("ledger_entries").values(rows).execute();
}

/** A transaction with its entries, whose sum is zero. */
export type LedgerTransaction = TransactionOf<bigint>;

/**
 * `Micros` is the type of an amount: text in the JSON of the database, since JavaScript would round
 * its numbers, and `bigint` for callers.
 */
type TransactionOf<Micros> = Pick<
  Selectable<Tables["ledger_transactions"]>,
  "id" | "number" | "kind" | "period" | "currency"
> & {
  readonly createdAt: Date;
  readonly entries: readonly {
    readonly account: Account;
    readonly couponCode: string | null;
    readonly micros: Micros;
  }[];
};

/**
 * Reads transactions, newest first. `before`: only lower numbers; null: all. No locks.
 */
export async function readLedger(
  db: Db,
  page: { readonly projectId: ProjectId; readonly before: number | null; readonly limit: number },
): Promise<LedgerTransaction[]> {
  const before = page.before === null ? sql`true` : sql`number < ${page.before}`;
  const { rows } = await sql<TransactionOf<string>>`
    select t.id, t.number, t.kind, t.period, t.currency, t.created_at as "createdAt", e.entries
      from (select * from ledger_transactions where project_id = ${page.projectId} and ${before}
             order by number desc limit ${page.limit}) t
      join lateral (
        select json_agg(json_build_object('account', account, 'couponCode', coupon_code, 'micros', amount_micros::text) order by number)
            as entries
          from ledger_entries where transaction_id = t.id) e on true
     order by t.number desc`.execute(db);
  return rows.map(({ entries, ...row }) => ({
    ...row,
    entries: entries.map(({ micros, ...entry }) => ({ ...entry, micros: BigInt(micros) })),
  }));
}
