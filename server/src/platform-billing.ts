// Connects what money is about: coupons.
import { CouponDesk } from "#billing/coupon-desk.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

/** What the API does with money. */
export type BillingParts = { readonly coupons: CouponDesk };

/** Opens it; its loops end with the platform. */
export function openBilling(_config: Config, { db, clock }: Foundation): BillingParts {
  return { coupons: new CouponDesk({ db, clock }) };
}
