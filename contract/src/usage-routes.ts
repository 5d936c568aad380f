// Usage routes: cost, usage sums, ledger, applied coupons and statements, with their queries and
// answers. Names follow the published interface, hence the underscores.
import { z } from "zod";
import type { Field } from "./field.ts";
import { nextToken, pageSize } from "./page-fields.ts";
import { paths, type Route } from "./route.ts";

const { project, app } = paths;

const month = {
  kind: "text",
  toml: null,
  form: /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])$/,
  allowed: "a month of the form 2026-01",
  default: null,
  defaultAbout: "this month (UTC)",
  about: "The month (UTC).",
} as const satisfies Field;

const day = (about: string, defaultAbout: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^(?!0000)\d{4}-\d{2}-\d{2}$/,
    allowed: "a day of the form 2026-01-31",
    default: null,
    defaultAbout,
    about,
  }) as const satisfies Field;

/** The query of `…/cost`. */
export const costQuery = { month } as const satisfies Record<string, Field>;

/** The query of `…/usage`. */
const usageQuery = {
  from: day("Only usage on or after this day (UTC).", "the first day of this month"),
  to: day("Only usage before this day (UTC); at most 400 days after from.", "tomorrow"),
  group_by: {
    kind: "choice",
    toml: null,
    choices: ["app", "day", "compute"],
    default: "app",
    about: "How usage is grouped; compute: by compute type, tier and pool.",
  },
} as const satisfies Record<string, Field>;

/** The query of `…/billing/ledger`. */
const ledgerQuery = {
  pageSize: pageSize(200, 50, "transactions"),
  nextToken: nextToken("nextToken", /^[1-9]\d{0,14}$/),
} as const satisfies Record<string, Field>;

/** The query of `…/billing/statements/{month}`. */
const statementQuery = {
  format: {
    kind: "choice",
    toml: null,
    choices: ["json", "csv", "html"],
    default: "json",
    about: "csv: for spreadsheets; html: a page to print.",
  },
} as const satisfies Record<string, Field>;

const time = z.iso.datetime();
const period = z.string().regex(month.form);
const currency = z.string().regex(/^[A-Z]{3}$/);
/** Whole hundredths of the currency unit, rounded to the nearest. */
const cents = z.int();
/** Exact: whole millionths of the currency unit. */
const micros = z.int();
const seconds = z.number().min(0);

const quantities = {
  /** The time of all replicas, from the start of their process to its end. */
  total_replica_seconds: seconds,
  /** A replica with two accelerators counts twice. */
  total_gpu_seconds: seconds,
  total_cpu_core_seconds: seconds,
  total_memory_gb_seconds: seconds,
  /** Time spent making environments. */
  total_build_seconds: seconds,
  /** Builds that were started, including those that reused an environment. */
  total_build_count: z.int().min(0),
  /**
   * What the persistent storage held, with what is free; 0 for an app: storage is the project's.
   */
  total_storage_gb_seconds: seconds,
};

const costs = {
  combined_cost_before_discounts_cents: cents,
  combined_cost_before_discounts_micros: micros,
  run_cost_micros: micros,
  build_cost_micros: micros,
  storage_cost_micros: micros,
};

const appliedCoupon = {
  code: z.string(),
  name: z.string(),
  /** The amount that the coupon grants; 0 for a percentage. */
  amount_cents: z.int().min(0),
  amount_currency: currency,
  frequency: z.enum(["once", "recurring", "forever"]),
  frequency_duration: z.int().min(1).optional(),
  percentage_rate: z.number().gt(0).lte(100).optional(),
  expiration_at: time.optional(),
  applied_at: time,
  status: z.enum(["active", "ended"]),
  /** The available amount at the start of the month, before any usage of it. */
  amount_cents_remaining: z.int().min(0),
  /** The available amount now. */
  amount_cents_balance: z.int().min(0),
  /** The amount used so far. */
  drawn_micros: micros,
};

/** The answer of `GET …/cost`. */
export const projectCost = z.strictObject({
  summary: z.strictObject({
    month: period,
    currency,
    ...costs,
    discounts_cents: cents,
    discounts_micros: micros,
    combined_cost_after_discounts_cents: cents,
    combined_cost_after_discounts_micros: micros,
    ...quantities,
  }),
  coupons: z.array(z.strictObject(appliedCoupon)),
});

/** The answer of `GET …/apps/{a}/cost`. */
export const appCost = z.strictObject({
  summary: z.strictObject({ month: period, currency, ...costs, ...quantities }),
});

const usageSums = {
  replica_seconds: seconds,
  gpu_seconds: seconds,
  cpu_core_seconds: seconds,
  memory_gb_seconds: seconds,
  build_seconds: seconds,
  build_count: z.int().min(0),
  storage_gb_seconds: seconds,
  cost_cents: cents,
  cost_micros: micros,
};

/** `GET …/usage`. `group_by` decides which of the first five fields are present. */
export const usageAnswer = z.strictObject({
  from: z.string(),
  to: z.string(),
  group_by: z.enum(["app", "day", "compute"]),
  currency,
  items: z.array(
    z.strictObject({
      /** The app; empty for the project's storage. */
      app_id: z.string().optional(),
      day: z.string().optional(),
      /** `storage` beside the compute types. */
      compute: z.string().optional(),
      compute_tier: z.string().optional(),
      /** `provider/region`; empty if the app names neither. */
      pool: z.string().optional(),
      ...usageSums,
    }),
  ),
  total: z.strictObject(usageSums),
});

/** The answer of `GET …/billing/ledger`. */
export const ledgerPage = z.strictObject({
  items: z.array(
    z.strictObject({
      id: z.uuid(),
      kind: z.enum(["coupon.grant", "coupon.draw", "usage.charge", "usage.correction"]),
      /** The month that it belongs to; null: none. */
      month: period.nullable(),
      currency,
      created_at: time,
      /** At least two; debits are positive, credits negative, and their sum is zero. */
      entries: z.array(
        z.strictObject({
          account: z.enum(["promotions", "coupon_credit", "receivable", "revenue"]),
          coupon_code: z.string().nullable(),
          amount_micros: micros,
        }),
      ),
    }),
  ),
  nextToken: z.string().optional(),
});

/** The answer of `GET …/billing/coupons`. */
export const appliedCoupons = z.strictObject({ items: z.array(z.strictObject(appliedCoupon)) });

const statementSums = {
  month: period,
  currency,
  /**
   * open: may still change. A closed one never does: costs discovered later are a correction in a
   * later one.
   */
  status: z.enum(["open", "closed"]),
  closed_at: time.nullable(),
  usage_cents: cents,
  usage_micros: micros,
  discounts_cents: cents,
  discounts_micros: micros,
  corrections_cents: cents,
  corrections_micros: micros,
  /** Usage minus discounts, plus corrections. */
  total_cents: cents,
  total_micros: micros,
};

/** The answer of `GET …/billing/statements`, newest first. */
export const statementList = z.strictObject({ items: z.array(z.strictObject(statementSums)) });

/** The answer of `GET …/billing/statements/{month}`. */
export const statement = z.strictObject({
  project_id: z.string(),
  ...statementSums,
  lines: z.array(
    z.strictObject({
      /** The app; empty for the project's storage. */
      app_id: z.string(),
      kind: z.enum(["run", "build", "storage"]),
      compute: z.string(),
      compute_tier: z.string(),
      pool: z.string(),
      seconds,
      gpu_seconds: seconds,
      cpu_core_seconds: seconds,
      memory_gb_seconds: seconds,
      build_count: z.int().min(0),
      /** Stored gigabyte-seconds; only storage has them. */
      storage_gb_seconds: seconds.optional(),
      cost_micros: micros,
    }),
  ),
  discounts: z.array(
    z.strictObject({ coupon_code: z.string(), coupon_name: z.string(), amount_micros: micros }),
  ),
  /** Costs of months whose statements were already closed. */
  corrections: z.array(
    z.strictObject({ month: period, usage_micros: micros, discounts_micros: micros }),
  ),
});

const lag = "Figures lag by about a minute.";

/** By operation id; part of the table in `routes.ts`. */
export const usageRoutes = {
  getProjectCost: {
    method: "GET",
    path: `${project}/cost`,
    about: `What a project's usage costs in a month, what coupons take off, and the coupons that could. ${lag}`,
    access: "billing.read",
    audit: null,
    query: costQuery,
    status: 200,
    answer: projectCost,
  },
  getAppCost: {
    method: "GET",
    path: `${app}/cost`,
    about: `What an app's usage costs in a month, before coupons, which are the project's. ${lag}`,
    access: "billing.read",
    audit: null,
    query: costQuery,
    status: 200,
    answer: appCost,
  },
  getUsage: {
    method: "GET",
    path: `${project}/usage`,
    about: `What a project uses, summed up by app, day or compute type, with its cost before coupons. ${lag}`,
    access: "billing.read",
    audit: null,
    query: usageQuery,
    status: 200,
    answer: usageAnswer,
  },
  listLedger: {
    method: "GET",
    path: `${project}/billing/ledger`,
    about:
      "The ledger transactions of a project's billing account, newest first. Usage appears there some minutes later.",
    access: "billing.read",
    audit: null,
    query: ledgerQuery,
    status: 200,
    answer: ledgerPage,
  },
  listAppliedCoupons: {
    method: "GET",
    path: `${project}/billing/coupons`,
    about: "The coupons that a project has applied, including ended ones, oldest first.",
    access: "billing.read",
    audit: null,
    status: 200,
    answer: appliedCoupons,
  },
  listStatements: {
    method: "GET",
    path: `${project}/billing/statements`,
    about:
      "The monthly statements of a project, newest first. A statement is closed one day after the end of its month.",
    access: "billing.read",
    audit: null,
    status: 200,
    answer: statementList,
  },
  getStatement: {
    method: "GET",
    path: `${project}/billing/statements/{month}`,
    about: "The statement of one month, as JSON, CSV or a page to print.",
    access: "billing.read",
    audit: null,
    query: statementQuery,
    status: 200,
    answer: statement,
    otherTypes: ["text/csv", "text/html"],
  },
} as const satisfies Record<string, Route>;
