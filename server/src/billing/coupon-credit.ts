// What an applied coupon can still take off: at the beginning of a month, before any usage of it, and now. Pure. Whoever
// takes a month's cost off what was there at its beginning has what is left.
import { minus, nothing, type Money } from "#lib/money.ts";
import { isCredit } from "./coupon.ts";
import { boundsOf, type Period } from "./period.ts";
import { periodsMax, type AppliedCoupon, type Settlement } from "./settle.ts";

/** What a coupon over an amount could take off in a month before any usage of it; nothing of a percentage. */
export function creditAtBegin(coupon: AppliedCoupon, period: Period, { base, drawn }: Settlement): Money {
  const none = nothing(base.currency);
  const { discount, appliedAtMs, expiresAtMs } = coupon;
  const { fromMs, toMs } = boundsOf(period);
  const isInForce = appliedAtMs < toMs && (expiresAtMs === null || expiresAtMs > fromMs);
  if (discount.kind === "percentage" || discount.amount.currency !== none.currency || !isInForce) return none;
  const before = drawn.filter((one) => one.applicationId === coupon.id && one.period < period);
  if (!isCredit(coupon)) return before.length < periodsMax(coupon) ? discount.amount : none;
  return before.reduce((left, { amount }) => minus(left, amount), discount.amount);
}

/** What it can take off now; nothing of a percentage and of one that has expired. */
export function creditNow(coupon: AppliedCoupon, period: Period, nowMs: number, settlement: Settlement): Money {
  const none = nothing(settlement.base.currency);
  const hasExpired = coupon.expiresAtMs !== null && coupon.expiresAtMs <= nowMs;
  if (hasExpired || coupon.discount.kind === "percentage") return none;
  const begin = creditAtBegin(coupon, period, settlement);
  return settlement.drawn
    .filter((one) => one.applicationId === coupon.id && one.period === period)
    .reduce((left, { amount }) => minus(left, amount), begin);
}
