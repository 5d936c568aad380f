// Fields of queries and bodies of the routes of plans and budgets, as rows like those of
// `parameters.ts`.
import type { Field } from "./field.ts";
import { nextToken, pageSize, searchText } from "./page-fields.ts";

/** The body of `PATCH /v2/operator/projects/{project_id}`. */
export const operatorProjectFields = {
  plan: {
    kind: "text",
    toml: null,
    form: /^[a-z0-9][a-z0-9-]{0,49}$/,
    allowed: "the name of a plan",
    default: null,
    about: "The name of a plan in SLIPWAY_PLANS_FILE, or self-hosted.",
  },
} as const satisfies Record<string, Field>;

/** The query of `GET /v2/operator/projects`. */
export const operatorProjectQuery = {
  search: searchText(
    "Only projects whose name contains this, in upper or lower case, or that have this id.",
    "all projects",
  ),
  pageSize: pageSize(200, 50, "projects"),
  nextToken: nextToken("nextToken", /^(dev-)?p-[0-9a-f]{8}$/),
} as const satisfies Record<string, Field>;

/** The body of `PUT …/budget`. */
export const budgetFields = {
  amount_cents: {
    kind: "integer",
    toml: null,
    min: 1,
    max: 100_000_000_000,
    default: null,
    about: "The budget for a month (UTC), before coupons, in hundredths of the currency unit.",
  },
  warn_percent: {
    kind: "integers",
    toml: null,
    min: 1,
    max: 100,
    lengthMax: 10,
    default: [80, 100],
    about: "Warning thresholds in percent of the amount; an empty list means none.",
  },
  stop: {
    kind: "boolean",
    toml: null,
    default: false,
    about:
      "True: when the amount is reached, calls are answered 402 and replicas end after their running calls, until the month is over or the budget is raised or deleted.",
  },
  webhook_url: {
    kind: "text",
    toml: null,
    form: /^https?:\/\/[^\s\x00-\x1f\x7f]{1,2000}$/,
    allowed: "an http or https URL of at most 2000 characters",
    default: null,
    defaultAbout: "none",
    // Anybody who has such a URL can often post to it, so a refusal does not repeat it.
    isSecret: true,
    about: "URL to which warnings and stops are posted as well.",
  },
} as const satisfies Record<string, Field>;
