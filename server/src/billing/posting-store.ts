// Rows that record how much usage, and how many discounts, are posted to the ledger. Written with
// the ledger, only under the lock of the project's billing account.
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import type { Currency } from "#lib/money.ts";
import { insertNew, putRows, type Db, type Tx } from "#store/database.ts";
import type { Period } from "./period.ts";
import type { Drawn } from "./coupons/settle.ts";

/** The posted usage of each month, in micro-units. No locks. */
export async function readPosted(tx: Tx, projectId: ProjectId): Promise<Map<Period, bigint>> {
  const rows = await tx
    .selectFrom("usage_posted")
    .select(["period", "amount_micros"])
    .where("project_id", "=", projectId)
    .execute();
  return new Map(rows.map((row) => [row.period, BigInt(row.amount_micros)]));
}

/** Records how much of a month's usage is posted. */
export async function writePosted(
  tx: Tx,
  projectId: ProjectId,
  posted: ReadonlyMap<Period, bigint>,
): Promise<void> {
  const rows = [...posted].map(([period, micros]) => ({
    project_id: projectId,
    period,
    amount_micros: String(micros),
  }));
  await putRows(tx, "usage_posted", ["project_id", "period"], ...rows);
}

/** Adds a month without usage, so that it gets a statement too. */
export async function addPeriod(tx: Tx, projectId: ProjectId, period: Period): Promise<void> {
  await insertNew(tx, "usage_posted", { project_id: projectId, period, amount_micros: "0" });
}

/** A project's coupon discounts by month, as posted to the ledger. No locks. */
export async function readDrawn(
  db: Db | Tx,
  projectId: ProjectId,
  currency: Currency,
): Promise<Drawn[]> {
  const rows = await db
    .selectFrom("coupon_draws as d")
    .innerJoin("coupon_applications as a", "a.id", "d.application_id")
    .select(["d.application_id", "d.period", "d.amount_micros"])
    .where("a.project_id", "=", projectId)
    // A discount that has become zero keeps its row, which is left out here.
    .where("d.amount_micros", ">", "0")
    .execute();
  return rows.map((row) => ({
    applicationId: row.application_id,
    period: row.period,
    amount: { currency, micros: BigInt(row.amount_micros) },
  }));
}

/** Records discounts that have changed, also the ones that have become zero. */
export async function writeDrawn(tx: Tx, drawn: readonly Drawn[]): Promise<void> {
  const rows = drawn.map(({ applicationId, period, amount }) => ({
    application_id: applicationId,
    period,
    amount_micros: String(amount.micros),
  }));
  await putRows(tx, "coupon_draws", ["application_id", "period"], ...rows);
}

/** Months of a project with closed statements. No locks. */
export async function readClosedPeriods(tx: Tx, projectId: ProjectId): Promise<Set<Period>> {
  const rows = await tx
    .selectFrom("statements")
    .select("period")
    .where("project_id", "=", projectId)
    .execute();
  return new Set(rows.map(({ period }) => period));
}

/** Counts a posting, after which none is due. */
export async function countPosting(tx: Tx, projectId: ProjectId): Promise<void> {
  await tx
    .updateTable("billing_accounts")
    .set({ postings: sql`postings + 1`, posting_due_at: null })
    .where("project_id", "=", projectId)
    .execute();
}
