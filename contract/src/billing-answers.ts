// The shapes of the billing answers. Names follow the published interface, hence the underscores.
import { z } from "zod";

const time = z.iso.datetime();
const currency = z.string().regex(/^[A-Z]{3}$/);
const frequency = z.enum(["once", "recurring", "forever"]);
const percentage = z.number().gt(0).lte(100);

/**
 * Apply coupon: exactly these fields; `expiration_at` and `percentage_rate` only where they apply.
 */
export const appliedCoupon = z.strictObject({
  coupon: z.strictObject({
    code: z.string(),
    name: z.string(),
    /** The amount that the coupon grants; 0 for a percentage. */
    amount_cents: z.int().min(0),
    /** For a percentage: the currency of the billing account. */
    amount_currency: currency,
    frequency,
    expiration_at: time.optional(),
    percentage_rate: percentage.optional(),
    /** The remaining amount; 0 for a percentage. */
    amount_cents_balance: z.int().min(0),
  }),
  message: z.string().min(1),
  success: z.literal(true),
});

/** A coupon as shown to the operator. */
export const operatorCoupon = z.strictObject({
  code: z.string(),
  name: z.string(),
  coupon_type: z.enum(["fixed_amount", "percentage"]),
  amount_cents: z.int().min(1).nullable(),
  amount_currency: currency.nullable(),
  percentage_rate: percentage.nullable(),
  frequency,
  frequency_duration: z.int().min(1).nullable(),
  expiration_at: time.nullable(),
  reusable: z.boolean(),
  max_uses: z.int().min(1).nullable(),
  /** Only projects with these plans can apply it; null: all projects. */
  plans: z.array(z.string()).min(1).nullable(),
  /** How often it has been applied. */
  uses: z.int().min(0),
  created_at: time,
  ended_at: time.nullable(),
});

export const operatorCouponPage = z.strictObject({
  items: z.array(operatorCoupon),
  nextToken: z.string().optional(),
});
