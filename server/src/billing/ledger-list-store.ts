// Pages of the ledger, as shown to its project.
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { Account } from "./entry.ts";
import type { Posting } from "./ledger.ts";
import type { Period } from "./period.ts";

/** A transaction with its entries, whose sum is zero. */
export type LedgerTransaction = {
  readonly id: string;
  readonly number: number;
  readonly kind: Posting["kind"];
  readonly period: Period | null;
  readonly currency: string;
  readonly createdAt: Date;
  readonly entries: readonly {
    readonly account: Account;
    readonly couponCode: string | null;
    readonly micros: bigint;
  }[];
};

/** Amounts are text in JSON, which has no large numbers. */
type Row = Omit<LedgerTransaction, "entries"> & {
  readonly entries: readonly {
    readonly account: Account;
    readonly couponCode: string | null;
    readonly micros: string;
  }[];
};

/** Newest first; only those before the given number, unless null. No locks. */
export async function readLedger(
  db: Db,
  given: { readonly projectId: ProjectId; readonly before: number | null; readonly limit: number },
): Promise<LedgerTransaction[]> {
  const before = given.before === null ? sql`true` : sql`number < ${given.before}`;
  const { rows } = await sql<Row>`
    select t.id, t.number, t.kind, t.period, t.currency, t.created_at as "createdAt", e.entries
      from (select * from ledger_transactions where project_id = ${given.projectId} and ${before}
             order by number desc limit ${given.limit}) t
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
