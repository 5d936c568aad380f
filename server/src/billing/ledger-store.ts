// Rows of the ledger, which is append-only.
import { sql, type Insertable } from "kysely";
import type { Tx } from "#store/database.ts";
import type { LedgerTransactionsTable } from "#store/tables.ts";
import type { LedgerEntry } from "./entry.ts";

/** Inserts a transaction; false when its reference exists. Waits for an uncommitted one with the same reference. */
export async function insertTransaction(tx: Tx, row: Insertable<LedgerTransactionsTable>): Promise<boolean> {
  const added = await tx
    .insertInto("ledger_transactions")
    .values({ ...row, created_at: sql<Date>`clock_timestamp()` })
    .onConflict((conflict) => conflict.column("reference").doNothing())
    .executeTakeFirst();
  return added.numInsertedOrUpdatedRows === 1n;
}

/** Inserts the entries of a transaction inserted in this database transaction. */
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
