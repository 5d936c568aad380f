// Defines coupons, checks requests for new ones, and decides which project may apply a coupon:
// pure. Called by `coupon-use-cases.ts`.
import type { z } from "zod";
import type { operatorCoupon } from "@slipway/contract/billing-answers.ts";
import { Fault } from "#lib/fault.ts";
import { ofCents, rateOf, readCurrency, type Currency, type Money, type Rate } from "#lib/money.ts";
import type { ProjectPlan } from "#billing/plans/plan.ts";

/** The discount of a coupon: an amount, or a percentage of the charges. */
export type Discount =
  | { readonly kind: "fixed_amount"; readonly amount: Money }
  | { readonly kind: "percentage"; readonly rate: Rate };

/** How often a coupon discounts: once, in a number of months with usage, or every month. */
export type Frequency =
  | { readonly kind: "once" }
  | { readonly kind: "recurring"; readonly periods: number }
  | { readonly kind: "forever" };

/** The terms of a coupon, which an operator specifies. */
export type CouponTerms = {
  readonly code: string;
  readonly name: string;
  readonly discount: Discount;
  readonly frequency: Frequency;
  /**
   * From this instant on, the coupon can neither be applied nor discount usage; null: it never
   * expires.
   */
  readonly expiresAt: Date | null;
  /** Whether one project may apply it more than once. */
  readonly isReusable: boolean;
  /** How often all projects together may apply the coupon; null: without a limit. */
  readonly usesMax: number | null;
  /** The plans whose projects can apply it; null: all plans. */
  readonly plans: readonly string[] | null;
};

export type Coupon = CouponTerms & {
  readonly id: string;
  /** How often projects have applied the coupon. */
  readonly uses: number;
  readonly createdAt: Date;
  /** When the operator ended it; null: it has not been ended and can still be applied. */
  readonly endedAt: Date | null;
};

/** The fields of a request for a coupon, each with a valid type and range; null: omitted. */
export type CouponWish = Readonly<
  Omit<
    z.infer<typeof operatorCoupon>,
    "expiration_at" | "plans" | "uses" | "created_at" | "ended_at"
  >
> & { readonly expiration_at: Date | null; readonly plans: readonly string[] | null };

/** The coupon that the fields describe. Throws `Fault("invalid")` when they are inconsistent. */
export function termsOf(wish: CouponWish): CouponTerms {
  return {
    code: wish.code,
    name: wish.name,
    discount: wish.coupon_type === "fixed_amount" ? amountOf(wish) : percentageOf(wish),
    frequency: frequencyOf(wish),
    expiresAt: wish.expiration_at,
    isReusable: wish.reusable,
    usesMax: wish.max_uses,
    plans: wish.plans,
  };
}

function amountOf(wish: CouponWish): Discount {
  const { amount_cents: cents, amount_currency: code } = wish;
  const when = "when coupon_type is fixed_amount";
  refuseIf(wish.percentage_rate !== null, `percentage_rate must be left out ${when}.`);
  if (cents === null)
    throw new Fault(
      "invalid",
      `amount_cents is missing; it must be a whole number above 0 ${when}.`,
    );
  if (code === null) {
    throw new Fault(
      "invalid",
      `amount_currency is missing; it must be a currency's code such as USD ${when}.`,
    );
  }
  const currency = readCurrency(code);
  if (currency === null) {
    throw new Fault(
      "invalid",
      `amount_currency is "${code}", but must be a currency's code such as USD (ISO 4217).`,
    );
  }
  return { kind: "fixed_amount", amount: ofCents(currency, cents) };
}

function percentageOf(wish: CouponWish): Discount {
  const { percentage_rate: percentage } = wish;
  const when = "when coupon_type is percentage";
  refuseIf(wish.amount_cents !== null, `amount_cents must be left out ${when}.`);
  refuseIf(
    wish.amount_currency !== null,
    `amount_currency must be left out ${when}: a percentage has none.`,
  );
  if (percentage === null) {
    throw new Fault(
      "invalid",
      `percentage_rate is missing; it must be a number above 0 and up to 100 ${when}.`,
    );
  }
  const rate = rateOf(percentage);
  if (rate === null) {
    const allowed = "a number above 0 and up to 100 with at most five decimals";
    throw new Fault("invalid", `percentage_rate is ${percentage}, but must be ${allowed}.`);
  }
  return { kind: "percentage", rate };
}

function frequencyOf({ frequency: kind, frequency_duration: periods }: CouponWish): Frequency {
  if (kind !== "recurring") {
    refuseIf(periods !== null, `frequency_duration must be left out when frequency is ${kind}.`);
    return { kind };
  }
  if (periods === null) {
    throw new Fault(
      "invalid",
      "frequency_duration is missing; it must be a number of months when frequency is recurring.",
    );
  }
  return { kind, periods };
}

function refuseIf(isWrong: boolean, message: string): void {
  if (isWrong) throw new Fault("invalid", message);
}

/** The facts that decide whether a code can be applied. */
export type Application = {
  /** Null: no active coupon has this code. */
  readonly coupon: Coupon | null;
  /** Whether the project has ever applied the coupon. */
  readonly isApplied: boolean;
  /** The currency of the project's billing account. */
  readonly currency: Currency;
  /** The project's plan. */
  readonly plan: Pick<ProjectPlan, "name" | "coupons">;
  readonly nowMs: number;
};

/**
 * Returns the coupon if its code can be applied, otherwise a fault that says why not. Unknown codes
 * and codes of ended coupons give the same answer.
 */
export function usable({ coupon, isApplied, currency, plan, nowMs }: Application): Coupon | Fault {
  if (coupon === null)
    return new Fault("not_found", "There is no coupon with this code, or it has ended.");
  if (isApplied && !coupon.isReusable) {
    return new Fault(
      "conflict",
      "The project has already applied this coupon, and it can be applied only once.",
    );
  }
  const { expiresAt, usesMax, uses, discount } = coupon;
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) {
    return new Fault("not_usable", `The coupon expired at ${expiresAt.toISOString()}.`);
  }
  if (usesMax !== null && uses >= usesMax) {
    return new Fault("not_usable", "The coupon has reached its maximum number of uses.");
  }
  if (!isForPlan(coupon.plans, plan)) {
    return new Fault(
      "not_usable",
      `The coupon is not for projects with the plan "${plan.name}", which this project has.`,
    );
  }
  if (discount.kind === "fixed_amount" && discount.amount.currency !== currency) {
    const other = discount.amount.currency;
    return new Fault(
      "not_usable",
      `The coupon is in ${other}, but the project's billing account is in ${currency}.`,
    );
  }
  return coupon;
}

/** Whether a plan takes all coupons, only those that name it, or none; see `couponRules`. */
function isForPlan(namedPlans: readonly string[] | null, plan: Application["plan"]): boolean {
  if (plan.coupons === "none") return false;
  if (namedPlans === null) return plan.coupons === "all";
  return namedPlans.includes(plan.name);
}

/**
 * Whether the coupon's whole amount is granted when it is applied, and then drawn down to zero.
 */
export function isCredit({
  discount,
  frequency,
}: Pick<CouponTerms, "discount" | "frequency">): boolean {
  return discount.kind === "fixed_amount" && frequency.kind === "once";
}
