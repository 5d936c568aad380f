// Computes the discounts of coupons on usage: pure. The result depends only on the set of usage
// records, not on their order or on repeats, so a late record changes earlier results as if it had
// been there from the start.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { boundsOf, periodOf, type Period } from "#billing/period.ts";
import { assert } from "#lib/assert.ts";
import { minus, nothing, plus, shareOf, smaller, type Currency, type Money } from "#lib/money.ts";
import { isCredit, type Discount, type Frequency } from "./coupon.ts";

/** A coupon that a project has applied. */
export type AppliedCoupon = {
  /** The id of the application: a project may apply one coupon several times. */
  readonly id: string;
  /** The order of application: the oldest is drawn down first. */
  readonly number: number;
  readonly couponId: string;
  readonly couponCode: string;
  readonly discount: Discount;
  readonly frequency: Frequency;
  /** The coupon discounts usage from this time on. */
  readonly appliedAtMs: number;
  /** The coupon discounts usage before this time; null: forever. */
  readonly expiresAtMs: number | null;
};

/** One usage record. Records with the same id are the same record. */
export type UsageItem = { readonly id: string; readonly atMs: number; readonly amount: Money };

/** The discount of one applied coupon in one month (like 2026-01, in UTC). */
export type Drawn = {
  readonly applicationId: string;
  readonly period: string;
  readonly amount: Money;
};

/** Usage before and after discounts: `base` = sum of `drawn` + `net`. */
export type UsageSettlement = {
  readonly base: Money;
  readonly drawn: readonly Drawn[];
  readonly net: Money;
};

/**
 * Usage of one month during which the same coupons apply. `atMs` is the time of one of its records.
 */
type Stretch = { readonly period: string; readonly atMs: number; base: Money };

/** Computes all discounts on the usage, whose amounts are in the currency and not negative. */
export function settle(
  currency: Currency,
  applied: readonly AppliedCoupon[],
  usage: readonly UsageItem[],
): UsageSettlement {
  const ordered = applied.toSorted((left, right) => left.number - right.number);
  const stretches = stretchesOf(currency, ordered, usage);
  const draws = new Draws(currency);
  for (const { period, atMs, base } of stretches) {
    let rest = base;
    for (const coupon of ordered) {
      if (!isInForce(coupon, atMs)) continue;
      rest = minus(rest, draws.draw(coupon, period, rest));
    }
  }
  const base = stretches.reduce((sum, stretch) => plus(sum, stretch.base), nothing(currency));
  const drawn = draws.all();
  return { base, drawn, net: drawn.reduce((sum, { amount }) => minus(sum, amount), base) };
}

/** All discounts of a month, in micro-units. */
export function drawnIn(drawn: readonly Drawn[], period: Period): bigint {
  return drawn
    .filter((draw) => draw.period === period)
    .reduce((sum, draw) => sum + draw.amount.micros, 0n);
}

/** Sums the usage of each stretch; in time order. */
function stretchesOf(
  currency: Currency,
  applied: readonly AppliedCoupon[],
  usage: readonly UsageItem[],
): Stretch[] {
  const borders = applied.flatMap(({ appliedAtMs, expiresAtMs }) => [
    appliedAtMs,
    expiresAtMs ?? Infinity,
  ]);
  const stretches = new Map<string, Stretch>();
  for (const { atMs, amount } of distinct(usage)) {
    const period = periodOf(atMs);
    // Between two borders, the number of borders that have passed stays the same.
    const key = `${period} ${borders.filter((border) => border <= atMs).length}`;
    const stretch = getOrInsert(stretches, key, () => ({
      period,
      atMs,
      base: nothing(currency),
    }));
    stretch.base = plus(stretch.base, amount);
  }
  // It does not matter which record gave a stretch its time: no border lies between its records.
  return [...stretches.values()].sort((left, right) => left.atMs - right.atMs);
}

function distinct(usage: readonly UsageItem[]): Iterable<UsageItem> {
  const known = new Map<string, UsageItem>();
  for (const record of usage) {
    assert(record.amount.micros >= 0n, "usage is not below zero");
    const same = known.get(record.id) ?? record;
    assert(
      same.atMs === record.atMs && same.amount.micros === record.amount.micros,
      "a repeat says the same",
    );
    known.set(record.id, record);
  }
  return known.values();
}

function isInForce({ appliedAtMs, expiresAtMs }: AppliedCoupon, atMs: number): boolean {
  return appliedAtMs <= atMs && (expiresAtMs === null || atMs < expiresAtMs);
}

/** Whether the coupon is in force at some instant of the month. */
export function isInForceIn(coupon: AppliedCoupon, period: Period): boolean {
  const { fromMs, toMs } = boundsOf(period);
  const { appliedAtMs, expiresAtMs } = coupon;
  return appliedAtMs < toMs && (expiresAtMs === null || expiresAtMs > fromMs);
}

/** The discounts so far, while stretches are processed in time order. */
class Draws {
  readonly #currency: Currency;
  /** The amounts that are used, by application, then by period. */
  readonly #drawn = new Map<string, Map<string, Money>>();
  /**
   * The one application of a coupon that draws in a period, by coupon and period: a coupon
   * discounts only once, however often it was applied.
   */
  readonly #drawing = new Map<string, string>();

  constructor(currency: Currency) {
    this.#currency = currency;
  }

  /** Records and returns the coupon's discount on an amount: between zero and the full amount. */
  draw(coupon: AppliedCoupon, period: string, charge: Money): Money {
    const none = nothing(this.#currency);
    const key = `${coupon.couponId} ${period}`;
    // If no application of the coupon has drawn in the period yet, this one may.
    const drawing = this.#drawing.get(key) ?? coupon.id;
    if (drawing !== coupon.id || !this.#hasPeriod(coupon, period)) return none;
    const amount = this.#offer(coupon, period, charge);
    if (amount.micros === 0n) return none;
    this.#drawing.set(key, coupon.id);
    const perPeriod = getOrInsert(this.#drawn, coupon.id, () => new Map());
    perPeriod.set(period, plus(perPeriod.get(period) ?? none, amount));
    return amount;
  }

  all(): Drawn[] {
    const drawn: Drawn[] = [];
    for (const [applicationId, perPeriod] of this.#drawn) {
      for (const [period, amount] of perPeriod) drawn.push({ applicationId, period, amount });
    }
    return drawn;
  }

  /** Whether the coupon's frequency allows a discount in the period. */
  #hasPeriod(coupon: AppliedCoupon, period: string): boolean {
    const used = this.#drawn.get(coupon.id);
    if (used === undefined) return periodsMax(coupon) > 0;
    return used.has(period) || used.size < periodsMax(coupon);
  }

  /** The discount that the coupon gives on the amount, whatever its frequency says. */
  #offer(coupon: AppliedCoupon, period: string, charge: Money): Money {
    const { discount } = coupon;
    if (discount.kind === "percentage") return shareOf(charge, discount.rate);
    // Skips a fixed amount in another currency; applying such a coupon is refused.
    if (discount.amount.currency !== this.#currency) return nothing(this.#currency);
    let rest = discount.amount;
    for (const [month, amount] of this.#drawn.get(coupon.id) ?? []) {
      // A credit has one amount for all months, any other coupon has its amount in each month.
      if (isCredit(coupon) || month === period) rest = minus(rest, amount);
    }
    return smaller(charge, rest);
  }
}

/**
 * The maximum number of months with a discount: a credit continues until it is used up, and a
 * percentage that discounts once has one month.
 */
export function periodsMax(coupon: AppliedCoupon): number {
  const { frequency } = coupon;
  if (frequency.kind === "recurring") return frequency.periods;
  return frequency.kind === "forever" || isCredit(coupon) ? Infinity : 1;
}
