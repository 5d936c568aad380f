// Route handlers for plans: a project's limits and usage, and the operator's list of projects.
import type { z } from "zod";
import type {
  operatorProject,
  operatorProjectPage,
  planList,
  projectPlan,
} from "@slipway/contract/plan-routes.ts";
import type { ProjectWithPlan } from "#billing/plans/plan-use-cases.ts";
import { pageWanted, projectOf, bodyOf, showPage, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for plans. */
export function planHandlers({ plans: { useCases, defaults } }: HandlerParts) {
  return {
    async getProjectPlan(call) {
      const { plan, usage } = await useCases.get(projectOf(call));
      return {
        plan: plan.name,
        limits: { apps: plan.appsMax, replicas: plan.replicasMax, gpus: plan.gpusMax },
        used: usage,
        audit_retention_days: plan.auditRetentionDays ?? defaults.auditDays,
        log_retention_days: plan.logRetentionDays ?? defaults.logDays,
        call_retention_days: plan.callRetentionDays ?? defaults.callDays,
        call_records_per_minute: plan.callRecordsPerMinute ?? defaults.callRecordsPerMinute,
        monthly_credit_cents: plan.monthlyCreditCents,
        coupons: plan.coupons,
      } satisfies z.infer<typeof projectPlan>;
    },
    async listPlans() {
      return useCases.names.map((name) => ({ name })) satisfies z.infer<typeof planList>;
    },
    async listOperatorProjects(call) {
      const { pageSize, nextToken } = pageWanted(call);
      const search = call.query["search"] as string | null;
      const page = await useCases.list({ search, after: nextToken, size: pageSize });
      return showPage(page, showProject) satisfies z.infer<typeof operatorProjectPage>;
    },
    async updateOperatorProject(call) {
      const body = bodyOf(call);
      return showProject(await useCases.change(projectOf(call), String(body["plan"]), call.by));
    },
  } satisfies Handlers;
}

function showProject({ project, plan }: ProjectWithPlan): z.infer<typeof operatorProject> {
  return {
    id: project.id,
    name: project.name,
    plan: plan.name,
    is_default_plan: project.plan === null,
    created_at: project.created_at.toISOString(),
  };
}
