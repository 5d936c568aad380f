// The remaining credit of an applied coupon: at the start of a month, before any usage, and now.
// The credit now is the credit at the start minus the month's discounts. Pure.
import { periodOf, type Period } from "#billing/period.ts";
import { minus, nothing, type Money } from "#lib/money.ts";
import { isCredit } from "./coupon.ts";
import { isInForceIn, periodsMax, type AppliedCoupon, type UsageSettlement } from "./settle.ts";

/** The inputs: the applied coupons of a project, their discounts so far, and the time. */
export type CreditOf = {
  readonly applied: readonly AppliedCoupon[];
  readonly settlement: UsageSettlement;
  readonly nowMs: number;
};

/**
 * The maximum discount of a fixed-amount coupon in a month, before any usage; zero for a
 * percentage.
 */
export function creditAtBegin(coupon: AppliedCoupon, period: Period, inputs: CreditOf): Money {
  const offer = offerAtBegin(coupon, period, inputs.settlement);
  // Each application of a credit keeps its own amount, also while another application draws.
  if (isCredit(coupon) || isDrawingApplication(coupon, period, inputs)) return offer;
  return nothing(offer.currency);
}

/** The maximum further discount now; zero for a percentage and for an expired coupon. */
export function creditNow(coupon: AppliedCoupon, inputs: CreditOf): Money {
  const { settlement, nowMs } = inputs;
  if (hasEnded(coupon, nowMs) || coupon.discount.kind === "percentage")
    return nothing(settlement.base.currency);
  const period = periodOf(nowMs);
  const begin = creditAtBegin(coupon, period, inputs);
  return settlement.drawn
    .filter((draw) => draw.applicationId === coupon.id && draw.period === period)
    .reduce((rest, { amount }) => minus(rest, amount), begin);
}

/** The credit at the start of a month, as if the project had applied the coupon only once. */
function offerAtBegin(
  coupon: AppliedCoupon,
  period: Period,
  { base, drawn }: UsageSettlement,
): Money {
  const none = nothing(base.currency);
  const { discount } = coupon;
  if (discount.kind === "percentage" || discount.amount.currency !== none.currency) return none;
  if (!isInForceIn(coupon, period)) return none;
  const earlier = drawn.filter((draw) => draw.applicationId === coupon.id && draw.period < period);
  // Other coupons have their whole amount in each month, until their months are used up.
  if (!isCredit(coupon)) return earlier.length < periodsMax(coupon) ? discount.amount : none;
  return earlier.reduce((rest, { amount }) => minus(rest, amount), discount.amount);
}

/**
 * A coupon discounts once per month, however often it was applied. True for the application that
 * has drawn in the month, or else for the first that can.
 */
function isDrawingApplication(
  coupon: AppliedCoupon,
  period: Period,
  { applied, settlement, nowMs }: CreditOf,
): boolean {
  const same = applied.filter(({ couponId }) => couponId === coupon.couponId);
  const draws = settlement.drawn.filter((draw) => draw.period === period);
  const drawers = new Set(draws.map(({ applicationId }) => applicationId));
  const drawer = same.find(({ id }) => drawers.has(id));
  if (drawer !== undefined) return drawer.id === coupon.id;
  const oldestFirst = same
    .filter((application) => offerAtBegin(application, period, settlement).micros > 0n)
    .toSorted((left, right) => left.number - right.number);
  // The oldest that has not ended, or else the oldest.
  const next = oldestFirst.find((one) => !hasEnded(one, nowMs)) ?? oldestFirst[0];
  return next?.id === coupon.id;
}

function hasEnded({ expiresAtMs }: AppliedCoupon, nowMs: number): boolean {
  return expiresAtMs !== null && expiresAtMs <= nowMs;
}
