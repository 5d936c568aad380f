// Routes of plans and budgets, and the shapes of their answers.
import { z } from "zod";
import { budgetFields, operatorProjectFields, operatorProjectQuery } from "./plan-fields.ts";
import { paths, type Route } from "./route.ts";

const time = z.iso.datetime();
const cents = z.int().min(0);
const count = z.int().min(0);

const operatorProjects = "/v2/operator/projects";
const projectBudget = `${paths.project}/budget` as const;
const appBudget = `${paths.app}/budget` as const;

/** A null limit means unlimited. */
export const projectPlan = z.strictObject({
  plan: z.string(),
  limits: z.strictObject({
    apps: count.nullable(),
    replicas: count.nullable(),
    gpus: count.nullable(),
  }),
  /** What the project uses now: replicas that are starting or serving count. */
  used: z.strictObject({ apps: count, replicas: count, gpus: count }),
  audit_retention_days: z.int().min(1),
  log_retention_days: z.int().min(1),
  /** How many days records of plain calls are kept. */
  call_retention_days: z.int().min(1),
  /** Successful plain calls of an app that are recorded per minute; the others are counted. */
  call_records_per_minute: count,
  monthly_credit_cents: cents,
  /** Which coupons can be applied: all, those that name the plan, or none. */
  coupons: z.enum(["all", "named", "none"]),
});

/** The plans of the platform. */
export const planList = z.array(z.strictObject({ name: z.string() }));

/** A project as shown to the operator. */
export const operatorProject = z.strictObject({
  id: z.string(),
  name: z.string(),
  plan: z.string(),
  /** True when the project has no assigned plan and uses the default plan. */
  is_default_plan: z.boolean(),
  created_at: time,
});

export const operatorProjectPage = z.strictObject({
  items: z.array(operatorProject),
  nextToken: z.string().optional(),
});

/** A budget and its state in this month. */
export const budget = z.strictObject({
  project_id: z.string(),
  /** Null: the budget of the whole project. */
  app_id: z.string().nullable(),
  amount_cents: z.int().min(1),
  currency: z.string(),
  warn_percent: z.array(z.int().min(1).max(100)),
  stop: z.boolean(),
  webhook_url: z.string().nullable(),
  /** The current month (UTC): 2026-01. */
  month: z.string().regex(/^\d{4}-\d{2}$/),
  /** The metered cost before coupons, in whole cents, rounded down. */
  spent_cents: cents,
  /** The highest percentage for which a warning was sent; null: none. */
  warned_percent: z.int().min(1).max(100).nullable(),
  /** Since when the project or app is stopped; null: it is not. */
  stopped_at: time.nullable(),
  created_at: time,
  updated_at: time,
});

const setBudget = { kind: "fields", fields: budgetFields, required: ["amount_cents"] } as const;

/** By operation id; part of the table in `routes.ts`. */
export const planRoutes = {
  getProjectPlan: {
    method: "GET",
    path: `${paths.project}/plan`,
    about: "The project's plan: its limits and how much of them is used.",
    access: "projects.read",
    audit: null,
    status: 200,
    answer: projectPlan,
  },
  listOperatorProjects: {
    method: "GET",
    path: operatorProjects,
    about: "All projects with their plans, by id. Operators only.",
    access: "platform.manage",
    audit: null,
    query: operatorProjectQuery,
    status: 200,
    answer: operatorProjectPage,
  },
  listPlans: {
    method: "GET",
    path: "/v2/operator/plans",
    about:
      "The plans that a project can be assigned: self-hosted and those of SLIPWAY_PLANS_FILE. Operators only.",
    access: "platform.manage",
    audit: null,
    status: 200,
    answer: planList,
  },
  updateOperatorProject: {
    method: "PATCH",
    path: `${operatorProjects}/{project_id}`,
    about:
      "Assigns a plan to a project. Replicas above a lower limit take no new calls and end after their running ones; no app is removed. Operators only.",
    access: "platform.manage",
    audit: "plan.change",
    body: { kind: "fields", fields: operatorProjectFields, required: ["plan"] },
    status: 200,
    answer: operatorProject,
  },
  getProjectBudget: {
    method: "GET",
    path: projectBudget,
    about: "The budget of the whole project, and its state in this month.",
    access: "billing.read",
    audit: null,
    status: 200,
    answer: budget,
  },
  setProjectBudget: {
    method: "PUT",
    path: projectBudget,
    about: "Sets the monthly budget of the whole project; an earlier one is replaced.",
    access: "billing.write",
    audit: "budget.set",
    body: setBudget,
    status: 200,
    answer: budget,
  },
  deleteProjectBudget: {
    method: "DELETE",
    path: projectBudget,
    about:
      "Deletes the budget of the project; what it had stopped resumes, unless another budget stops it too.",
    access: "billing.write",
    audit: "budget.delete",
    status: 200,
    answer: budget,
  },
  getAppBudget: {
    method: "GET",
    path: appBudget,
    about: "The budget of an app, and its state in this month.",
    access: "billing.read",
    audit: null,
    status: 200,
    answer: budget,
  },
  setAppBudget: {
    method: "PUT",
    path: appBudget,
    about: "Sets the monthly budget of an app; an earlier one is replaced.",
    access: "billing.write",
    audit: "budget.set",
    body: setBudget,
    status: 200,
    answer: budget,
  },
  deleteAppBudget: {
    method: "DELETE",
    path: appBudget,
    about:
      "Deletes the budget of an app; if the budget had stopped the app, it resumes, unless the project's budget stops it too.",
    access: "billing.write",
    audit: "budget.delete",
    status: 200,
    answer: budget,
  },
} as const satisfies Record<string, Route>;
