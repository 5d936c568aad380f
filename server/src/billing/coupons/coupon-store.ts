// Rows of billing accounts, coupons and their applications.
import { sql, type Insertable, type Selectable } from "kysely";
import { must } from "#lib/assert.ts";
import type { ProjectId } from "#lib/ids.ts";
import { readCurrency, type Currency, type Rate } from "#lib/money.ts";
import { insertNew, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { Coupon, Discount, Frequency } from "./coupon.ts";

/** The default of the column `billing_accounts.currency`. */
const currencyDefault = "USD";

/** A coupon with its number, by which lists are ordered and continued. */
export type CouponRow = Coupon & { readonly number: number };

/**
 * Creates the project's billing account if it does not exist; returns the account's currency. Waits
 * for a concurrent insert.
 */
export async function openAccount(tx: Tx, projectId: ProjectId): Promise<Currency> {
  await insertNew(tx, "billing_accounts", { project_id: projectId });
  const account = tx
    .selectFrom("billing_accounts")
    .select("currency")
    .where("project_id", "=", projectId);
  const { currency } = await account.executeTakeFirstOrThrow();
  return currencyOf(currency);
}

/** The currency of the project's billing account, or the currency it will get. No locks. */
export async function readAccountCurrency(db: Db | Tx, projectId: ProjectId): Promise<Currency> {
  const account = db
    .selectFrom("billing_accounts")
    .select("currency")
    .where("project_id", "=", projectId);
  return currencyOf((await account.executeTakeFirst())?.currency ?? currencyDefault);
}

/** The active coupon with this code, or null. Locks its row until the transaction ends. */
export async function lockCoupon(tx: Tx, code: string): Promise<CouponRow | null> {
  const row = await tx
    .selectFrom("coupons")
    .selectAll()
    .where("code", "=", code)
    .where("ended_at", "is", null)
    .forNoKeyUpdate()
    .executeTakeFirst();
  return row === undefined ? null : couponOf(row);
}

/** Whether the project has ever applied the coupon. `couponId` null: the query finds no coupon. */
export async function isApplied(
  tx: Tx,
  projectId: ProjectId,
  couponId: string | null,
): Promise<boolean> {
  // Without a coupon, the query looks for an id that no coupon has, so that it takes as long as
  // with one.
  const row = await tx
    .selectFrom("coupon_applications")
    .select("id")
    .where("project_id", "=", projectId)
    .where("coupon_id", "=", couponId ?? "00000000-0000-0000-0000-000000000000")
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Inserts an application and counts it as a use of the coupon, whose row must be locked. */
export async function insertApplication(
  tx: Tx,
  row: Insertable<Tables["coupon_applications"]>,
): Promise<void> {
  await tx.insertInto("coupon_applications").values(row).execute();
  await tx
    .updateTable("coupons")
    .set({ uses: sql`uses + 1` })
    .where("id", "=", row.coupon_id)
    .execute();
}

/** Inserts a coupon; null when an active coupon has the same code. */
export async function insertCoupon(
  tx: Tx,
  row: Insertable<Tables["coupons"]>,
): Promise<CouponRow | null> {
  const inserted = await tx
    .insertInto("coupons")
    .values(row)
    .onConflict((conflict) => conflict.column("code").where("ended_at", "is", null).doNothing())
    .returningAll()
    .executeTakeFirst();
  return inserted === undefined ? null : couponOf(inserted);
}

/** Ends the coupon with this code; null when no active coupon has it. */
export async function endCoupon(tx: Tx, code: string): Promise<CouponRow | null> {
  const row = await tx
    .updateTable("coupons")
    .set({ ended_at: sql`clock_timestamp()` })
    .where("code", "=", code)
    .where("ended_at", "is", null)
    .returningAll()
    .executeTakeFirst();
  return row === undefined ? null : couponOf(row);
}

/**
 * Coupons made by operators, newest first, including ended ones. `before`: only lower numbers;
 * null: all. No locks.
 */
export async function listCoupons(
  db: Db,
  page: { before: number | null; limit: number },
): Promise<CouponRow[]> {
  let rows = db.selectFrom("coupons").selectAll().where("is_plan_credit", "=", false);
  if (page.before !== null) rows = rows.where("number", "<", page.before);
  return (await rows.orderBy("number", "desc").limit(page.limit).execute()).map(couponOf);
}

/** The columns of a discount and of its frequency. */
export function columnsOf({ discount, frequency }: { discount: Discount; frequency: Frequency }) {
  const isFixed = discount.kind === "fixed_amount";
  return {
    coupon_type: discount.kind,
    amount_micros: isFixed ? String(discount.amount.micros) : null,
    currency: isFixed ? discount.amount.currency : null,
    rate: isFixed ? null : discount.rate,
    frequency: frequency.kind,
    periods: frequency.kind === "recurring" ? frequency.periods : null,
  };
}

function couponOf(row: Selectable<Tables["coupons"]>): CouponRow {
  const { id, number, code, name, uses } = row;
  return {
    id,
    number,
    code,
    name,
    uses,
    discount: discountOf(row),
    frequency: frequencyOf(row),
    expiresAt: row.expires_at,
    isReusable: row.is_reusable,
    usesMax: row.uses_max,
    plans: row.plans,
    createdAt: row.created_at,
    endedAt: row.ended_at,
  };
}

type DiscountColumns = Pick<Selectable<Tables["coupons"]>, "amount_micros" | "currency" | "rate">;

/** The discount of a coupon. The table's constraints keep these columns consistent. */
export function discountOf({ amount_micros: micros, currency, rate }: DiscountColumns): Discount {
  if (rate !== null) return { kind: "percentage", rate: rate as Rate };
  const amount = {
    currency: currencyOf(must(currency, "a currency")),
    micros: BigInt(must(micros, "an amount")),
  };
  return { kind: "fixed_amount", amount };
}

/** How often a coupon discounts. */
export function frequencyOf(
  row: Pick<Selectable<Tables["coupons"]>, "frequency" | "periods">,
): Frequency {
  const { frequency: kind, periods } = row;
  return kind === "recurring" ? { kind, periods: must(periods, "a number of periods") } : { kind };
}

function currencyOf(code: string): Currency {
  return must(readCurrency(code), `the currency ${code} is known`);
}
