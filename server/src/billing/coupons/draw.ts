// Computes the ledger entries that lead from one settlement of a project's usage to a later one.
// Pure; `ledger.ts` writes them.
import { move, type LedgerEntry } from "#billing/entry.ts";
import { nothing, plus, minus, type Money } from "#lib/money.ts";
import { isCredit } from "./coupon.ts";
import type { AppliedCoupon, UsageSettlement } from "./settle.ts";

/**
 * Entries for new discounts; excess ones are given back. One movement per changed coupon, so that
 * no credit goes below zero in between; none when nothing has changed.
 */
export function drawEntries(
  applied: readonly AppliedCoupon[],
  before: UsageSettlement,
  after: UsageSettlement,
): LedgerEntry[] {
  return applied.flatMap((coupon) => {
    const amount = minus(drawnFrom(coupon, after), drawnFrom(coupon, before));
    if (amount.micros === 0n) return [];
    return move(amount, {
      from: "receivable",
      // A credit was given away when it was granted; everything else is given away now.
      to: isCredit(coupon) ? "coupon_credit" : "promotions",
      applicationId: coupon.id,
      couponCode: coupon.couponCode,
    });
  });
}

function drawnFrom(coupon: AppliedCoupon, { drawn, base }: UsageSettlement): Money {
  return drawn
    .filter(({ applicationId }) => applicationId === coupon.id)
    .reduce((sum, { amount }) => plus(sum, amount), nothing(base.currency));
}
