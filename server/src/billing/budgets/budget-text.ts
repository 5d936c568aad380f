// The texts about a budget, for people and programs. They contain no secrets, and not the budget's
// URL, which may contain a secret. Pure.
import { shownAppId } from "#lib/ids.ts";
import { boundsOf } from "#billing/period.ts";
import { never } from "#lib/assert.ts";
import { microsOfCent } from "#lib/money.ts";
import type { Budget, BudgetScope } from "./budget-store.ts";

/** A budget event. A warning always has `percent`, and no other event has it. */
export type BudgetEvent = {
  readonly kind: "warn" | "stop" | "resume";
  readonly percent: number | null;
  readonly spentMicros: bigint;
};

/** Whole cents of a non-negative amount, rounded down. */
export function wholeCentsOf(micros: bigint): number {
  return Number(micros / microsOfCent);
}

/** An amount for people: `USD 12.34`. */
function dollars(micros: bigint): string {
  const cents = micros / microsOfCent;
  return `USD ${cents / 100n}.${String(cents % 100n).padStart(2, "0")}`;
}

/** The scope of a budget: `the app example of the project p-0123abcd`. */
function subjectOf({ projectId, appId }: BudgetScope): string {
  // The id of an app is its project's id, a dash and its name.
  const project = `the project ${projectId}`;
  return appId === null
    ? project
    : `the app ${shownAppId(appId).slice(projectId.length + 1)} of ${project}`;
}

/** When a stop in this month ends automatically: `2026-12-01 00:00 UTC`. */
function monthEndText(period: string): string {
  return `${new Date(boundsOf(period).toMs).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Why calls are refused and what to do, for callers; without amounts. */
export function stopReason(
  scope: BudgetScope,
  stop: { readonly appId: string | null; readonly period: string },
): string {
  const whose = stop.appId === null ? "its project's" : "its";
  const path = stop.appId === null ? "" : `/apps/${shownAppId(stop.appId)}`;
  const route = `/v2/projects/${scope.projectId}${path}/budget`;
  return `The app does not accept calls: ${whose} budget for ${stop.period} is used up. It resumes at ${monthEndText(stop.period)}, or as soon as the budget is raised (PUT ${route}) or deleted (DELETE ${route}).`;
}

/** An event in a sentence or two. */
export function messageOf(budget: Budget, event: BudgetEvent): string {
  const { terms, state } = budget;
  const subject = subjectOf(budget);
  const amount = `the budget of ${dollars(terms.amountMicros)} for ${state.period}`;
  const spent = `${dollars(event.spentMicros)} so far`;
  switch (event.kind) {
    case "warn":
      return `Costs of ${subject} have reached ${event.percent ?? 0} % of ${amount}: ${spent}.`;
    case "stop":
      return `Costs of ${subject} have reached ${amount}: ${spent}. Calls are answered 402, and replicas end after their running calls, until ${monthEndText(state.period)} or until the budget is raised or deleted.`;
    case "resume":
      return `${subject.replace(/^the/, "The")} is no longer stopped by its budget: ${amount}, ${spent}.`;
    default:
      return never(event.kind);
  }
}

/** The subject of a mail. */
export function titleOf(budget: BudgetScope, event: BudgetEvent): string {
  return `Slipway: ${summaryOf(event)}, ${subjectOf(budget)}`;
}

/** The event in a few words. No mail is sent about a resumption, so it has no words of its own. */
function summaryOf({ kind, percent }: BudgetEvent): string {
  if (kind === "warn") return `${percent ?? 0} % of the budget is used`;
  return kind === "stop" ? "budget used up" : "budget";
}

/** The content posted to a budget's URL. */
export function contentOf(budget: Budget, event: BudgetEvent, atMs: number) {
  return {
    type: `budget.${event.kind}`,
    at: new Date(atMs).toISOString(),
    project_id: budget.projectId,
    app_id: budget.appId === null ? null : shownAppId(budget.appId),
    month: budget.state.period,
    amount_cents: wholeCentsOf(budget.terms.amountMicros),
    spent_cents: wholeCentsOf(event.spentMicros),
    percent: event.percent,
    message: messageOf(budget, event),
  };
}
