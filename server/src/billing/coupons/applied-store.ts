// The coupons that a project has applied, in the form that the discount computation needs.
import type { ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { discountOf, frequencyOf } from "./coupon-store.ts";
import type { AppliedCoupon } from "./settle.ts";

/** An applied coupon, with the fields that people see. */
export type AppliedRow = AppliedCoupon & {
  readonly couponName: string;
  /** When the coupon itself expires, even if its application ended earlier; null: never. */
  readonly couponExpiresAt: Date | null;
};

/**
 * All applications of a project, oldest first, including those that no longer discount. No locks.
 */
export async function readApplied(db: Db | Tx, projectId: ProjectId): Promise<AppliedRow[]> {
  const rows = await db
    .selectFrom("coupon_applications as a")
    .innerJoin("coupons as c", "c.id", "a.coupon_id")
    .select(["a.id", "a.number", "a.created_at", "a.ended_at", "c.id as coupon_id", "c.code"])
    .select([
      "c.name",
      "c.coupon_type",
      "c.amount_micros",
      "c.currency",
      "c.rate",
      "c.frequency",
      "c.periods",
    ])
    .select("c.expires_at")
    .where("a.project_id", "=", projectId)
    .orderBy("a.number")
    .execute();
  return rows.map((row) => {
    // The coupon discounts until it expires or its application ends, whichever is first.
    const ends = [row.expires_at, row.ended_at].filter((end) => end !== null);
    const endsMs = ends.map((end) => end.getTime());
    return {
      id: row.id,
      number: row.number,
      couponId: row.coupon_id,
      couponCode: row.code,
      couponName: row.name,
      discount: discountOf(row),
      frequency: frequencyOf(row),
      appliedAtMs: row.created_at.getTime(),
      expiresAtMs: endsMs.length === 0 ? null : Math.min(...endsMs),
      couponExpiresAt: row.expires_at,
    };
  });
}
