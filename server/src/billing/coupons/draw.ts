// Computes the ledger entries for the difference between two settlements of a project's usage.
// Pure; `ledger.ts` writes the entries.
import { move, type LedgerEntry } from "#billing/entry.ts";
import { nothing, plus, minus, type Money } from "#lib/money.ts";
import { isCredit } from "./coupon.ts";
import type { AppliedCoupon, UsageSettlement } from "./settle.ts";

/**
 * The entries that book the change of each coupon's discount from `before` to `after`; a smaller
 * discount is taken back. There is one movement for each changed coupon, so that no credit goes
 * below zero in between.
 */
export function drawEntries(
  applied: readonly AppliedCoupon[],
  before: UsageSettlement,
  after: UsageSettlement,
): LedgerEntry[] {
  return applied.flatMap((coupon) => {
    const amount = minus(discountOf(coupon, after), discountOf(coupon, before));
    if (amount.micros === 0n) return [];
    return move(amount, {
      from: "receivable",
      // A credit was booked as a promotion when it was granted, any other discount is booked now.
      to: isCredit(coupon) ? "coupon_credit" : "promotions",
      applicationId: coupon.id,
      couponCode: coupon.couponCode,
    });
  });
}

/** How much the coupon takes off in the settlement. */
function discountOf(coupon: AppliedCoupon, { drawn, base }: UsageSettlement): Money {
  const amounts = drawn.filter(({ applicationId }) => applicationId === coupon.id);
  return amounts.reduce((sum, { amount }) => plus(sum, amount), nothing(base.currency));
}
