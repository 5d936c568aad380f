// Coupons: a project applies one by its code, the operator creates, lists and ends them.
import type { z } from "zod";
import type { appliedCoupon, operatorCoupon } from "@slipway/contract/billing-answers.ts";
import { couponFields } from "@slipway/contract/billing-fields.ts";
import { termsOf, type Coupon, type CouponWish } from "#billing/coupons/coupon.ts";
import type { AppliedAnswer } from "#billing/coupons/coupon-use-cases.ts";
import { networkOf } from "#lib/client-address.ts";
import { Fault } from "#lib/fault.ts";
import { percentageOf, wholeCents } from "#lib/money.ts";
import { perMinute, RateLimit } from "#lib/rate-limit.ts";
import {
  bodyOf,
  pageBefore,
  partOf,
  projectOf,
  readTime,
  showPage,
  type ApiCall,
  type Handlers,
} from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Attempts per minute of one project: more than people type, and far too few to guess a code. */
const projectAttemptsMax = 10;
/** Attempts per minute of one network address, which several people may share. */
const addressAttemptsMax = 60;

/** Route handlers for coupons. */
export function couponHandlers({ coupons: useCases, clock }: HandlerParts) {
  const text = tooManyAttempts;
  const projectLimit = new RateLimit({ max: projectAttemptsMax, clock, text });
  const addressLimit = new RateLimit({ max: addressAttemptsMax, clock, text });
  return {
    async applyCoupon(call) {
      const projectId = projectOf(call);
      // Every attempt counts, even one whose body is invalid.
      addressLimit.take(networkOf(call.request.clientAddress));
      projectLimit.take(projectId);
      const body = bodyOf(call);
      return showApplied(await useCases.apply(projectId, String(body["coupon_code"]), call.by));
    },
    async createCoupon(call) {
      return showCoupon(await useCases.create(termsOf(wishOf(call)), call.by));
    },
    async listCoupons(call) {
      return showPage(await useCases.list(pageBefore(call)), showCoupon);
    },
    async endCoupon(call) {
      const code = partOf(call, "code");
      if (!couponFields.code.form.test(code))
        throw new Fault("not_found", "There is no coupon with this code.");
      return showCoupon(await useCases.end(code, call.by));
    },
  } satisfies Handlers;
}

const tooManyAttempts = perMinute((used) => `There were ${used} attempts to apply coupons`);

function wishOf(call: ApiCall): CouponWish {
  const body = bodyOf(call);
  const expiration = body["expiration_at"] ?? null;
  const plans = body["plans"] as unknown as readonly string[];
  // The contract has validated the types, ranges and choices of the values.
  return {
    ...(body as unknown as Omit<CouponWish, "expiration_at" | "plans">),
    expiration_at: expiration === null ? null : readTime("expiration_at", expiration),
    // A coupon that names no plan is for all of them.
    plans: plans.length === 0 ? null : plans,
  };
}

function showApplied({ coupon, currency, balance }: AppliedAnswer): z.infer<typeof appliedCoupon> {
  const { code, name, discount, frequency, expiresAt } = coupon;
  const isFixed = discount.kind === "fixed_amount";
  return {
    coupon: {
      code,
      name,
      amount_cents: isFixed ? wholeCents(discount.amount) : 0,
      amount_currency: isFixed ? discount.amount.currency : currency,
      frequency: frequency.kind,
      ...(expiresAt === null ? {} : { expiration_at: expiresAt.toISOString() }),
      ...(isFixed ? {} : { percentage_rate: percentageOf(discount.rate) }),
      amount_cents_balance: wholeCents(balance),
    },
    message: `The coupon "${name}" was applied to the project.`,
    success: true,
  };
}

function showCoupon(coupon: Coupon): z.infer<typeof operatorCoupon> {
  const { discount, frequency, plans } = coupon;
  const amount = discount.kind === "fixed_amount" ? discount.amount : null;
  return {
    code: coupon.code,
    name: coupon.name,
    coupon_type: discount.kind,
    amount_cents: amount === null ? null : wholeCents(amount),
    amount_currency: amount?.currency ?? null,
    percentage_rate: discount.kind === "percentage" ? percentageOf(discount.rate) : null,
    frequency: frequency.kind,
    frequency_duration: frequency.kind === "recurring" ? frequency.periods : null,
    expiration_at: coupon.expiresAt?.toISOString() ?? null,
    reusable: coupon.isReusable,
    max_uses: coupon.usesMax,
    plans: plans === null ? null : [...plans],
    uses: coupon.uses,
    created_at: coupon.createdAt.toISOString(),
    ended_at: coupon.endedAt?.toISOString() ?? null,
  };
}
