// Budgets of projects and apps.
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
  const ofProject = (call: ApiCall): BudgetScope => ({ projectId: projectOf(call), appId: null });
  const ofApp = async (call: ApiCall): Promise<BudgetScope> => {
    const ref = refOf(call);
    await apps.require(ref.projectId, ref.appId);
    return ref;
  };
  return {
    getProjectBudget: async (call) => show(await useCases.get(ofProject(call))),
    setProjectBudget: async (call) =>
      show(await useCases.set(ofProject(call), wishOf(call), call.by)),
    deleteProjectBudget: async (call) => show(await useCases.delete(ofProject(call), call.by)),
    getAppBudget: async (call) => show(await useCases.get(await ofApp(call))),
    setAppBudget: async (call) =>
      show(await useCases.set(await ofApp(call), wishOf(call), call.by)),
    deleteAppBudget: async (call) => show(await useCases.delete(await ofApp(call), call.by)),
  } satisfies Handlers;
}

function wishOf(call: ApiCall): BudgetWish {
  const body = bodyOf(call);
  // The contract has validated the types, ranges and syntax of the values.
  const warnPercent = body["warn_percent"] as unknown as readonly number[];
  return {
    amountMicros: BigInt(Number(body["amount_cents"])) * microsOfCent,
    warnPercent: warnPercent.toSorted((one, other) => one - other),
    isStop: body["stop"] === true,
    webhookUrl: body["webhook_url"] as string | null,
  };
}

function show({ budget: of, period, spentMicros }: BudgetView): z.infer<typeof budget> {
  const { terms, state } = of;
  // The state of an earlier month no longer counts.
  const isNow = state.period === period;
  return {
    project_id: of.projectId,
    app_id: of.appId === null ? null : shownAppId(of.appId),
    amount_cents: wholeCentsOf(terms.amountMicros),
    currency: "USD",
    warn_percent: [...terms.warnPercent],
    stop: terms.isStop,
    webhook_url: of.webhookUrl,
    month: period,
    spent_cents: wholeCentsOf(spentMicros),
    warned_percent: isNow && state.warnedPercent > 0 ? state.warnedPercent : null,
    stopped_at: isNow ? (of.stoppedAt?.toISOString() ?? null) : null,
    created_at: of.createdAt.toISOString(),
    updated_at: of.updatedAt.toISOString(),
  };
}
