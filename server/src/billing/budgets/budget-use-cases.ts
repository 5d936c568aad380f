// Use cases of budgets: set, show, delete. Called by the API. A change, the stop or the resumption
// of apps that follows from it, and the audit rows are one transaction.
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { record, type By } from "#audit/record.ts";
import { periodOf } from "#billing/period.ts";
import { Fault } from "#lib/fault.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { resourceOf, takeStep, type BudgetStepParts } from "./budget-step.ts";
import * as store from "./budget-store.ts";
import { wholeCentsOf } from "./budget-text.ts";
import type { BudgetState, BudgetTerms } from "./budget.ts";

/** The requested terms of a budget. */
export type BudgetWish = BudgetTerms & { readonly webhookUrl: string | null };

/** A budget and the amount spent this month. */
export type BudgetView = {
  readonly budget: store.Budget;
  readonly period: string;
  readonly spentMicros: bigint;
};

export type BudgetUseCasesParts = BudgetStepParts & {
  readonly db: Db;
  /** Why a URL cannot be called; null: it can. */
  readonly checkUrl: (url: string) => string | null;
  /** Called when there may be notices to send. */
  readonly onStep: () => void;
};

/** The use cases. They throw `Fault("invalid" | "not_found" | "conflict")`. */
export class BudgetUseCases {
  readonly #parts: BudgetUseCasesParts;

  constructor(parts: BudgetUseCasesParts) {
    this.#parts = parts;
  }

  async get(scope: store.BudgetScope): Promise<BudgetView> {
    const budget = await store.findBudget(this.#parts.db, scope);
    if (budget === null) throw noBudget(scope);
    return await this.#view(this.#parts.db, budget);
  }

  /**
   * Creates or replaces the budget. If the amount is reached already, it warns or stops at once.
   */
  async set(scope: store.BudgetScope, wish: BudgetWish, by: By): Promise<BudgetView> {
    const { db, clock, checkUrl } = this.#parts;
    const problem = wish.webhookUrl === null ? null : checkUrl(wish.webhookUrl);
    if (problem !== null) throw new Fault("invalid", `webhook_url cannot be called. ${problem}`);
    const period = periodOf(clock.now());
    const view = await db.transaction().execute(async (tx) => {
      const { webhookUrl, ...terms } = wish;
      const added = { ...scope, id: randomUUID(), terms, webhookUrl, period };
      // Null: the scope had no budget, and has the added one now.
      const previous = await store.addBudget(tx, added);
      const budget = await store.putBudget(tx, { ...added, id: previous?.id ?? added.id });
      const changes = changesOf(previous, wish);
      await record(tx, {
        projectId: scope.projectId,
        action: "budget.set",
        by,
        resource: resourceOf(budget),
        changes,
      });
      // `putBudget` has ended any stop in the row. The step gets the stop as it was before, and
      // decides whether it goes on.
      const state = previous === null ? budget.state : stateUnder(terms, previous);
      const withStop = { ...budget, stoppedAt: previous?.stoppedAt ?? null };
      return await this.#view(tx, await takeStep(tx, withStop, state, this.#parts));
    });
    this.#parts.onStep();
    return view;
  }

  /** Deletes the budget and resumes what it had stopped. Returns the deleted budget. */
  async delete(scope: store.BudgetScope, by: By): Promise<BudgetView> {
    const deleted = await this.#parts.db.transaction().execute(async (tx) => {
      const budget = await store.lockBudget(tx, scope);
      if (budget === null) throw noBudget(scope);
      const view = await this.#view(tx, budget);
      // A step under terms without a stop resumes the apps that the budget had stopped.
      const withoutStop = { ...budget, terms: { ...budget.terms, warnPercent: [], isStop: false } };
      await takeStep(tx, withoutStop, budget.state, this.#parts);
      await store.removeBudget(tx, budget.id);
      const resource = resourceOf(budget);
      const changes = { amountCents: { old: wholeCentsOf(budget.terms.amountMicros) } };
      await record(tx, {
        projectId: scope.projectId,
        action: "budget.delete",
        by,
        resource,
        changes,
      });
      await notify(tx, "plans", scope.projectId);
      return view;
    });
    this.#parts.onStep();
    return deleted;
  }

  async #view(db: Db | Tx, budget: store.Budget): Promise<BudgetView> {
    const period = periodOf(this.#parts.clock.now());
    return { budget, period, spentMicros: await store.spentOf(db, budget, period) };
  }
}

/** The budget's state under new terms: another amount or other percentages warn anew. */
function stateUnder(terms: BudgetTerms, previous: store.Budget): BudgetState {
  const isSame =
    previous.terms.amountMicros === terms.amountMicros &&
    isDeepStrictEqual(new Set(previous.terms.warnPercent), new Set(terms.warnPercent));
  return isSame ? previous.state : { ...previous.state, warnedPercent: 0 };
}

/** The changes for the audit log. */
function changesOf(
  previous: store.Budget | null,
  wish: BudgetWish,
): Record<string, { old?: unknown; new: unknown }> {
  const old =
    previous === null ? null : shownOf({ ...previous.terms, webhookUrl: previous.webhookUrl });
  const changes: Record<string, { old?: unknown; new: unknown }> = {};
  for (const [name, value] of Object.entries(shownOf(wish)))
    changes[name] = old === null ? { new: value } : { old: old[name], new: value };
  return changes;
}

/** The terms for the audit log; of the URL only the host, since its path may contain a secret. */
function shownOf({
  amountMicros,
  warnPercent,
  isStop,
  webhookUrl,
}: BudgetWish): Record<string, unknown> {
  const webhookHost = webhookUrl === null ? null : (URL.parse(webhookUrl)?.host ?? null);
  return { amountCents: wholeCentsOf(amountMicros), warnPercent, stop: isStop, webhookHost };
}

function noBudget({ appId }: store.BudgetScope): Fault {
  const owner = appId === null ? "project" : "app";
  return new Fault("not_found", `The ${owner} has no budget.`);
}
