// Rows of the ledger. They are only ever added.
import { sql, type Insertable } from "kysely";
import type { Tx } from "#store/database.ts";
import type { LedgerTransactionsTable } from "#store/tables.ts";
import type { LedgerEntry } from "./entry.ts";

/** Adds a transaction; false when its reference is taken. Waits for another one of the same reference that is not committed yet. */
export async function insertTransaction(tx: Tx, row: Insertable<LedgerTransactionsTable>): Promise<boolean> {
  const added = await tx
    .insertInto("ledger_transactions")
    .values({ ...row, created_at: sql<Date>`clock_timestamp()` })
    .onConflict((conflict) => conflict.column("reference").doNothing())
    .executeTakeFirst();
  return added.numInsertedOrUpdatedRows === 1n;
}

/** Adds the entries of a transaction that this database transaction has made. */
export async function insertEntries(tx: Tx, transactionId: string, entries: readonly LedgerEntry[]): Promise<void> {
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
