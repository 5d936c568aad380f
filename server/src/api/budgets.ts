// Route handlers for the budgets of projects and apps.
import { shownAppId } from "#lib/ids.ts";
import type { z } from "zod";
import type { budget } from "@slipway/contract/plan-routes.ts";
import type { BudgetView, BudgetWish } from "#billing/budgets/budget-use-cases.ts";
import type { BudgetScope } from "#billing/budgets/budget-store.ts";
import { wholeCentsOf } from "#billing/budgets/budget-text.ts";
import { microsOfCent } from "#lib/money.ts";
import { projectOf, bodyOf, refOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for budgets. */
export function budgetHandlers({ budgets: useCases, apps }: HandlerParts) {
  const projectScope = (call: ApiCall): BudgetScope => ({
    projectId: projectOf(call),
    appId: null,
  });
  const appScope = async (call: ApiCall): Promise<BudgetScope> => {
    const ref = refOf(call);
    await apps.require(ref.projectId, ref.appId);
    return ref;
  };
  return {
    getProjectBudget: async (call) => show(await useCases.get(projectScope(call))),
    setProjectBudget: async (call) =>
      show(await useCases.set(projectScope(call), wishOf(call), call.by)),
    deleteProjectBudget: async (call) => show(await useCases.delete(projectScope(call), call.by)),
    getAppBudget: async (call) => show(await useCases.get(await appScope(call))),
    setAppBudget: async (call) =>
      show(await useCases.set(await appScope(call), wishOf(call), call.by)),
    deleteAppBudget: async (call) => show(await useCases.delete(await appScope(call), call.by)),
  } satisfies Handlers;
}

function wishOf(call: ApiCall): BudgetWish {
  const body = bodyOf(call);
  // The contract has validated the types, ranges and syntax of the values.
  const warnPercent = body["warn_percent"] as unknown as readonly number[];
  return {
    amountMicros: BigInt(Number(body["amount_cents"])) * microsOfCent,
    warnPercent: warnPercent.toSorted((first, second) => first - second),
    isStop: body["stop"] === true,
    webhookUrl: body["webhook_url"] as string | null,
  };
}

function show(view: BudgetView): z.infer<typeof budget> {
  const { period, spentMicros } = view;
  const { projectId, appId, terms, state, webhookUrl } = view.budget;
  const { stoppedAt, createdAt, updatedAt } = view.budget;
  // The state of an earlier month no longer counts.
  const isCurrent = state.period === period;
  return {
    project_id: projectId,
    app_id: appId === null ? null : shownAppId(appId),
    amount_cents: wholeCentsOf(terms.amountMicros),
    currency: "USD",
    warn_percent: [...terms.warnPercent],
    stop: terms.isStop,
    webhook_url: webhookUrl,
    month: period,
    spent_cents: wholeCentsOf(spentMicros),
    warned_percent: isCurrent && state.warnedPercent > 0 ? state.warnedPercent : null,
    stopped_at: isCurrent ? (stoppedAt?.toISOString() ?? null) : null,
    created_at: createdAt.toISOString(),
    updated_at: updatedAt.toISOString(),
  };
}
