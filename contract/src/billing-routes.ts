// Billing routes: applying a coupon to a project, and managing coupons as the operator.
import { appliedCoupon, operatorCoupon, operatorCouponPage } from "./billing-answers.ts";
import { applyCouponFields, couponFields, couponQuery } from "./billing-fields.ts";
import { paths, type Route } from "./route.ts";

const operatorCoupons = "/v2/operator/coupons";

/** By operation id; part of the table in `routes.ts`. */
export const billingRoutes = {
  createCoupon: {
    method: "POST",
    path: operatorCoupons,
    about: "Creates a coupon that projects can apply. Operators only.",
    access: "platform.manage",
    audit: "coupon.create",
    body: { kind: "fields", fields: couponFields, required: ["code", "name", "coupon_type"] },
    status: 201,
    answer: operatorCoupon,
  },
  listCoupons: {
    method: "GET",
    path: operatorCoupons,
    about: "All coupons, including ended ones, newest first. Operators only.",
    access: "platform.manage",
    audit: null,
    query: couponQuery,
    status: 200,
    answer: operatorCouponPage,
  },
  applyCoupon: {
    method: "POST",
    path: `${paths.project}/billing/coupons/apply`,
    about: "Applies a promotional coupon code to the project's billing account.",
    access: "billing.write",
    audit: "coupon.apply",
    body: { kind: "fields", fields: applyCouponFields, required: ["coupon_code"] },
    status: 200,
    answer: appliedCoupon,
  },
  endCoupon: {
    method: "DELETE",
    path: `${operatorCoupons}/{code}`,
    about:
      "Ends a coupon: it can no longer be applied; projects that have applied it keep it. Its code can be reused. Operators only.",
    access: "platform.manage",
    audit: "coupon.end",
    status: 200,
    answer: operatorCoupon,
  },
} as const satisfies Record<string, Route>;
