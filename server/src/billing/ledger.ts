// The double-entry ledger: every movement of money is a transaction whose entries sum to zero. The
// database refuses changes and deletions of entries, unbalanced transactions, and credits below
// zero.
import { randomUUID } from "node:crypto";
import { assert } from "#lib/assert.ts";
import type { ProjectId } from "#lib/ids.ts";
import { nothing, plus, type Currency } from "#lib/money.ts";
import type { Tx } from "#store/database.ts";
import type { LedgerEntry } from "./entry.ts";
import { insertEntries, insertTransaction } from "./ledger-store.ts";
import type { Period } from "./period.ts";

export type Posting = {
  /** Identifies the posting: of two postings with the same reference only the first counts. */
  readonly reference: string;
  readonly kind: "coupon.grant" | "coupon.draw" | "usage.charge" | "usage.correction";
  /** The month (UTC) of the usage or the discounts. */
  readonly period?: Period;
  readonly projectId: ProjectId;
  readonly currency: Currency;
  /** The entries, at least two, whose sum is zero. */
  readonly entries: readonly LedgerEntry[];
};

/** Writes a transaction; false, without writing anything, when its reference exists. */
export async function post(tx: Tx, posting: Posting): Promise<boolean> {
  const { entries, currency, reference } = posting;
  const sum = entries.reduce((total, { amount }) => plus(total, amount), nothing(currency));
  assert(entries.length >= 2 && sum.micros === 0n, `the ledger transaction ${reference} balances`);
  const id = randomUUID();
  const { kind, projectId, period = null } = posting;
  const row = { id, reference, kind, project_id: projectId, currency, period };
  const isNew = await insertTransaction(tx, row);
  if (!isNew) return false;
  await insertEntries(tx, id, entries);
  return true;
}
