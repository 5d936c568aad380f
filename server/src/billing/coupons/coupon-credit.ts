// The remaining credit of an applied coupon: at the start of a month, before any usage, and now.
// Pure. The credit at the start minus the month's discounts is what is left.
import { boundsOf, periodOf, type Period } from "#billing/period.ts";
import { minus, nothing, type Money } from "#lib/money.ts";
import { isCredit } from "./coupon.ts";
import { periodsMax, type AppliedCoupon, type UsageSettlement } from "./settle.ts";

/** The inputs: the applied coupons of a project, their discounts so far, and the time. */
export type CreditOf = {
  readonly applied: readonly AppliedCoupon[];
  readonly settlement: UsageSettlement;
  readonly nowMs: number;
};

/** What a fixed-amount coupon could take off in a month before any usage; zero for a percentage. */
export function creditAtBegin(coupon: AppliedCoupon, period: Period, of: CreditOf): Money {
  const offer = offerAtBegin(coupon, period, of.settlement);
  return isCredit(coupon) || hasTurn(coupon, period, of) ? offer : nothing(offer.currency);
}

/** What it can take off now; zero for a percentage and for an expired coupon. */
export function creditNow(coupon: AppliedCoupon, of: CreditOf): Money {
  const { settlement, nowMs } = of;
  if (hasEnded(coupon, nowMs) || coupon.discount.kind === "percentage")
    return nothing(settlement.base.currency);
  const period = periodOf(nowMs);
  const begin = creditAtBegin(coupon, period, of);
  return settlement.drawn
    .filter((one) => one.applicationId === coupon.id && one.period === period)
    .reduce((left, { amount }) => minus(left, amount), begin);
}

/** As if the project had applied the coupon only once. */
function offerAtBegin(
  coupon: AppliedCoupon,
  period: Period,
  { base, drawn }: UsageSettlement,
): Money {
  const none = nothing(base.currency);
  const { discount, appliedAtMs, expiresAtMs } = coupon;
  const { fromMs, toMs } = boundsOf(period);
  const isInForce = appliedAtMs < toMs && (expiresAtMs === null || expiresAtMs > fromMs);
  if (discount.kind === "percentage" || discount.amount.currency !== none.currency || !isInForce)
    return none;
  const before = drawn.filter((one) => one.applicationId === coupon.id && one.period < period);
  if (!isCredit(coupon)) return before.length < periodsMax(coupon) ? discount.amount : none;
  return before.reduce((left, { amount }) => minus(left, amount), discount.amount);
}

/**
 * A coupon discounts once per month, however often it was applied: the application that has drawn
 * has the turn, else the first that may draw.
 */
function hasTurn(
  coupon: AppliedCoupon,
  period: Period,
  { applied, settlement, nowMs }: CreditOf,
): boolean {
  const same = applied.filter(({ couponId }) => couponId === coupon.couponId);
  const drawers = new Set(
    settlement.drawn
      .filter((one) => one.period === period)
      .map(({ applicationId }) => applicationId),
  );
  const able = same
    .filter((one) => offerAtBegin(one, period, settlement).micros > 0n)
    .toSorted(
      (one, other) =>
        Number(hasEnded(one, nowMs)) - Number(hasEnded(other, nowMs)) || one.number - other.number,
    );
  const holder = same.find(({ id }) => drawers.has(id)) ?? able[0];
  return holder?.id === coupon.id;
}

function hasEnded({ expiresAtMs }: AppliedCoupon, nowMs: number): boolean {
  return expiresAtMs !== null && expiresAtMs <= nowMs;
}
