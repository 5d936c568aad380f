// Fields of queries and bodies of the billing routes, as rows like those of `parameters.ts`. Names
// follow the published interface, hence the underscores.
import type { Field } from "./field.ts";
import { shownName } from "./name-field.ts";
import { nextToken, pageSize } from "./page-fields.ts";

/** The body of `…/billing/coupons/apply`. */
export const applyCouponFields = {
  coupon_code: {
    kind: "text",
    toml: null,
    form: /^[^\x00-\x1f\x7f]{1,100}$/,
    allowed: "1 to 100 characters",
    default: null,
    // The code is worth money, so a refusal does not repeat it.
    isSecret: true,
    about: "The code of the coupon; case-sensitive.",
  },
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/operator/coupons`. */
export const couponFields = {
  code: {
    kind: "text",
    toml: null,
    form: /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    allowed:
      "at most 100 letters, digits, dots, dashes and underscores, the first a letter or digit",
    default: null,
    about:
      "The code that is entered to apply it; case-sensitive. Anyone who has it can use it: make it hard to guess.",
  },
  name: shownName(200, "The name that people see."),
  coupon_type: {
    kind: "choice",
    toml: null,
    choices: ["fixed_amount", "percentage"],
    default: null,
    about:
      "fixed_amount needs amount_cents and amount_currency, percentage needs percentage_rate; neither accepts the fields of the other.",
  },
  amount_cents: {
    kind: "integer",
    toml: null,
    min: 1,
    max: 100_000_000_000,
    default: null,
    about: "The amount in hundredths of the currency unit.",
  },
  amount_currency: {
    kind: "text",
    toml: null,
    form: /^[A-Z]{3}$/,
    allowed: "a currency's code such as USD (ISO 4217)",
    default: null,
    about: "Only projects whose billing account is in this currency can apply the coupon.",
  },
  percentage_rate: {
    kind: "number",
    toml: null,
    above: 0,
    max: 100,
    default: null,
    about: "The discount in percent, with at most five decimals.",
  },
  frequency: {
    kind: "choice",
    toml: null,
    choices: ["once", "recurring", "forever"],
    default: "once",
    about:
      "once: an amount until it is used up, a percentage in one month; recurring: again in each of frequency_duration months; forever: again every month.",
  },
  frequency_duration: {
    kind: "integer",
    toml: null,
    min: 1,
    max: 1200,
    default: null,
    about:
      "The number of months with usage in which it applies; required if frequency is recurring, otherwise not accepted.",
  },
  expiration_at: {
    kind: "text",
    toml: null,
    form: /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i,
    allowed: "a time of the form 2026-01-31T12:00:00Z (RFC 3339)",
    default: null,
    defaultAbout: "it does not expire",
    about: "From this time on it can neither be applied nor discount usage.",
  },
  reusable: {
    kind: "boolean",
    toml: null,
    default: false,
    about: "True: one project may apply it repeatedly.",
  },
  max_uses: {
    kind: "integer",
    toml: null,
    min: 1,
    max: 1_000_000_000,
    default: null,
    defaultAbout: "without limit",
    about: "How often it can be applied, by all projects together.",
  },
  plans: {
    kind: "list",
    toml: null,
    lengthMin: 1,
    lengthMax: 50,
    isSingleAllowed: false,
    isUnique: true,
    default: [],
    defaultAbout: "projects of all plans",
    about: "Plan names: only projects with one of these plans can apply it.",
  },
} as const satisfies Record<string, Field>;

/** The query of `GET /v2/operator/coupons`. */
export const couponQuery = {
  pageSize: pageSize(200, 50, "coupons"),
  nextToken: nextToken("nextToken", /^[1-9]\d{0,14}$/),
} as const satisfies Record<string, Field>;
