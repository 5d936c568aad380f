// Computes the discounts of coupons on usage: pure. The result depends only on the set of usage
// records, not on their order or on repeats, so a late record changes earlier results as if it had
// been there from the start.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { periodOf, type Period } from "#billing/period.ts";
import { assert } from "#lib/assert.ts";
import { minus, nothing, plus, shareOf, smaller, type Currency, type Money } from "#lib/money.ts";
import { isCredit, type Discount, type Frequency } from "./coupon.ts";

/** A coupon that a project has applied. */
export type AppliedCoupon = {
  readonly id: string;
  /** The order of application: the oldest is drawn down first. */
  readonly number: number;
  readonly couponId: string;
  readonly couponCode: string;
  readonly discount: Discount;
  readonly frequency: Frequency;
  /** It discounts usage from `appliedAtMs` on and before `expiresAtMs`. */
  readonly appliedAtMs: number;
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

/** `base` = sum of `drawn` + `net`. */
export type UsageSettlement = {
  readonly base: Money;
  readonly drawn: readonly Drawn[];
  readonly net: Money;
};

/** Usage of one month during which the same coupons apply. */
type Stretch = { readonly period: string; readonly atMs: number; base: Money };

/** All discounts on this usage. All usage amounts are in the currency and not negative. */
export function settle(
  currency: Currency,
  applied: readonly AppliedCoupon[],
  usage: readonly UsageItem[],
): UsageSettlement {
  const ordered = applied.toSorted((one, other) => one.number - other.number);
  const stretches = stretchesOf(currency, ordered, usage);
  const draws = new Draws(currency);
  for (const { period, atMs, base } of stretches) {
    let left = base;
    for (const coupon of ordered) {
      if (!isInForce(coupon, atMs)) continue;
      left = minus(left, draws.draw(coupon, period, left));
    }
  }
  const base = stretches.reduce((sum, stretch) => plus(sum, stretch.base), nothing(currency));
  const drawn = draws.all();
  return { base, drawn, net: drawn.reduce((sum, { amount }) => minus(sum, amount), base) };
}

/** All discounts of a month, in micro-units. */
export function drawnIn(drawn: readonly Drawn[], period: Period): bigint {
  return drawn.reduce((all, one) => (one.period === period ? all + one.amount.micros : all), 0n);
}

/** In time order. */
function stretchesOf(
  currency: Currency,
  applied: readonly AppliedCoupon[],
  usage: readonly UsageItem[],
): Stretch[] {
  const borders = applied.flatMap(({ appliedAtMs, expiresAtMs }) => [
    appliedAtMs,
    expiresAtMs ?? Infinity,
  ]);
  const found = new Map<string, Stretch>();
  for (const { atMs, amount } of distinct(usage)) {
    const period = periodOf(atMs);
    const key = `${period} ${borders.filter((border) => border <= atMs).length}`;
    const stretch = getOrInsert(found, key, () => ({
      period,
      atMs,
      base: nothing(currency),
    }));
    stretch.base = plus(stretch.base, amount);
  }
  // Any record of a stretch can give its time: no border lies between them.
  return [...found.values()].sort((one, other) => one.atMs - other.atMs);
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

/** The discounts so far, while stretches are processed in time order. */
class Draws {
  readonly #currency: Currency;
  /** By application, then by period. */
  readonly #drawn = new Map<string, Map<string, Money>>();
  /**
   * Which application of a coupon has the turn in a period: a coupon discounts only once, however
   * often it was applied.
   */
  readonly #turns = new Map<string, string>();

  constructor(currency: Currency) {
    this.#currency = currency;
  }

  /** The coupon's discount on a non-negative amount: between zero and the full amount. */
  draw(coupon: AppliedCoupon, period: string, left: Money): Money {
    const none = nothing(this.#currency);
    const turn = `${coupon.couponId} ${period}`;
    if ((this.#turns.get(turn) ?? coupon.id) !== coupon.id || !this.#hasPeriod(coupon, period))
      return none;
    const amount = this.#offer(coupon, period, left);
    if (amount.micros === 0n) return none;
    this.#turns.set(turn, coupon.id);
    const periods = getOrInsert(this.#drawn, coupon.id, () => new Map());
    periods.set(period, plus(periods.get(period) ?? none, amount));
    return amount;
  }

  all(): Drawn[] {
    return [...this.#drawn].flatMap(([applicationId, periods]) =>
      [...periods].map(([period, amount]) => ({ applicationId, period, amount })),
    );
  }

  #hasPeriod(coupon: AppliedCoupon, period: string): boolean {
    const used = this.#drawn.get(coupon.id);
    return used?.has(period) === true || (used?.size ?? 0) < periodsMax(coupon);
  }

  #offer(coupon: AppliedCoupon, period: string, left: Money): Money {
    const { discount } = coupon;
    if (discount.kind === "percentage") return shareOf(left, discount.rate);
    // Skips a fixed amount in another currency; applying such a coupon is refused.
    if (discount.amount.currency !== this.#currency) return nothing(this.#currency);
    const used = this.#drawn.get(coupon.id);
    const counted = isCredit(coupon)
      ? [...(used?.values() ?? [])]
      : [used?.get(period) ?? nothing(this.#currency)];
    const rest = counted.reduce((sum, amount) => minus(sum, amount), discount.amount);
    return smaller(left, rest);
  }
}

/** In how many months it discounts: a credit continues until it is used up. */
export function periodsMax(coupon: AppliedCoupon): number {
  const { frequency } = coupon;
  if (frequency.kind === "recurring") return frequency.periods;
  return frequency.kind === "forever" || isCredit(coupon) ? Infinity : 1;
}
