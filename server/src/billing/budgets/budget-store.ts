// Rows of budgets, of the amounts spent, and of budget notices.
import { sql, type Insertable } from "kysely";
import { costOfMonth } from "#billing/usage/usage-store.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { insertNew, readRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { BudgetState, BudgetTerms } from "./budget.ts";

/** The scope of a budget; `appId` null: the whole project. */
export type BudgetScope = { readonly projectId: ProjectId; readonly appId: AppId | null };

/** A budget as stored. */
export type Budget = BudgetScope & {
  readonly id: string;
  readonly terms: BudgetTerms;
  readonly state: BudgetState;
  /** When the budget began to stop calls; null: it does not stop them. */
  readonly stoppedAt: Date | null;
  readonly webhookUrl: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
};

/**
 * How often adding a budget is tried. A second try is needed only if somebody deletes the existing
 * budget in the same moment.
 */
const addAttemptsMax = 5;

/** A notice to send; its `target` is an email address or a URL. */
export type Notice = Insertable<Tables["budget_notices"]> & { readonly id: string };
export type DueNotice = Pick<Notice, "id" | "target" | "kind"> & {
  /** What `budget-step.ts` has stored: a mail or the body of a post, by `kind`. */
  readonly content: unknown;
  /** The number of attempts, including the one for which the notice was claimed. */
  readonly attempts: number;
};

/** The budget of the scope, or null. */
export async function findBudget(db: Db, scope: BudgetScope): Promise<Budget | null> {
  const row = await ofScope(db, scope).executeTakeFirst();
  return row === undefined ? null : budgetOf(row);
}

/** The budget of the scope, locked until the transaction ends, or null. */
export async function lockBudget(tx: Tx, scope: BudgetScope): Promise<Budget | null> {
  const row = await ofScope(tx, scope).forNoKeyUpdate().executeTakeFirst();
  return row === undefined ? null : budgetOf(row);
}

/** A page of the budgets of one project, or of all projects (null), ordered by id. No locks. */
export async function listBudgets(
  db: Db,
  page: {
    readonly projectId: ProjectId | null;
    /** The last id of the previous page. */
    readonly after: string | null;
    readonly limit: number;
  },
): Promise<Budget[]> {
  let rows = db.selectFrom("budgets").selectAll();
  if (page.projectId !== null) rows = rows.where("project_id", "=", page.projectId);
  if (page.after !== null) rows = rows.where("id", ">", page.after);
  return (await rows.orderBy("id").limit(page.limit).execute()).map(budgetOf);
}

/** A budget with its new terms. */
export type BudgetWithTerms = BudgetScope & {
  readonly id: string;
  readonly terms: BudgetTerms;
  readonly webhookUrl: string | null;
  /** The month with which the budget's state begins, like 2026-01. */
  readonly period: string;
};

/**
 * Adds the budget and returns null. If its scope already has a budget, returns that budget instead,
 * locked until the transaction ends. Waits for a concurrent insert.
 */
export async function addBudget(tx: Tx, budget: BudgetWithTerms): Promise<Budget | null> {
  const { id, projectId, appId, period } = budget;
  for (let attempt = 1; attempt <= addAttemptsMax; attempt++) {
    const row = { id, project_id: projectId, app_id: appId, period, ...columnsOf(budget) };
    if (await insertNew(tx, "budgets", row)) return null;
    const existing = await lockBudget(tx, budget);
    if (existing !== null) return existing;
    // Somebody has deleted the existing budget in between.
  }
  throw new Fault("conflict", "The budget is being changed repeatedly at the moment; try again.");
}

/**
 * Replaces the terms of a budget whose row is locked, and ends its stop; returns the budget as
 * stored.
 */
export async function putBudget(tx: Tx, budget: Omit<BudgetWithTerms, "period">): Promise<Budget> {
  const row = await tx
    .updateTable("budgets")
    .set({ ...columnsOf(budget), stopped_at: null, updated_at: sql`clock_timestamp()` })
    .where("id", "=", budget.id)
    .returningAll()
    .executeTakeFirstOrThrow();
  return budgetOf(row);
}

function columnsOf({ terms, webhookUrl }: Pick<BudgetWithTerms, "terms" | "webhookUrl">) {
  return {
    amount_micros: String(terms.amountMicros),
    warn_percent: [...terms.warnPercent],
    is_stop: terms.isStop,
    webhook_url: webhookUrl,
  };
}

/** Writes the new state of a budget whose row is locked. */
export async function writeState(
  tx: Tx,
  id: string,
  state: BudgetState,
  stoppedAt: Date | null,
): Promise<void> {
  await tx
    .updateTable("budgets")
    .set({ period: state.period, warned_percent: state.warnedPercent, stopped_at: stoppedAt })
    .where("id", "=", id)
    .execute();
}

/** Deletes a budget whose row is locked. */
export async function removeBudget(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom("budgets").where("id", "=", id).execute();
}

/** The amount spent in the month, before coupons, in micro-units. */
export async function spentOf(
  db: Db | Tx,
  { projectId, appId }: BudgetScope,
  month: string,
): Promise<bigint> {
  return await costOfMonth(db, { projectId, month, ...(appId === null ? {} : { appId }) });
}

/** Stores notices to send. */
export async function addNotices(tx: Tx, notices: readonly Notice[]): Promise<void> {
  const now = sql<Date>`clock_timestamp()`;
  if (notices.length > 0)
    await tx
      .insertInto("budget_notices")
      .values(notices.map((notice) => ({ ...notice, created_at: now, due_at: now })))
      .execute();
}

/** Claims due notices, oldest first; nobody else claims them for `holdMs`. */
export async function takeNotices(
  db: Db,
  { limit, holdMs }: { readonly limit: number; readonly holdMs: number },
): Promise<DueNotice[]> {
  return await readRows<DueNotice>(db)`
    with due as (
      select id from budget_notices where due_at <= clock_timestamp()
       order by due_at limit ${limit} for update skip locked
    )
    update budget_notices as taken
       set attempts = attempts + 1, due_at = clock_timestamp() + ${holdMs} * interval '1 millisecond'
      from due where taken.id = due.id
    returning taken.id, taken.target, taken.kind, taken.content, taken.attempts`;
}

/** Postpones a notice that could not be sent. */
export async function delayNotice(db: Db, id: string, delayMs: number): Promise<void> {
  await db
    .updateTable("budget_notices")
    .set({ due_at: sql`clock_timestamp() + ${delayMs} * interval '1 millisecond'` })
    .where("id", "=", id)
    .execute();
}

/** Deletes a notice that was sent or given up. */
export async function removeNotice(db: Db, id: string): Promise<void> {
  await db.deleteFrom("budget_notices").where("id", "=", id).execute();
}

type BudgetRow = Awaited<ReturnType<ReturnType<typeof ofScope>["executeTakeFirstOrThrow"]>>;

/**
 * Selects the budget of a scope: unlike `=`, `is not distinct from` also finds the budget of a
 * whole project, whose app is null.
 */
function ofScope(db: Db | Tx, { projectId, appId }: BudgetScope) {
  return db
    .selectFrom("budgets")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("app_id", "is not distinct from", appId);
}

function budgetOf(row: BudgetRow): Budget {
  return {
    id: row.id,
    projectId: row.project_id,
    appId: row.app_id,
    webhookUrl: row.webhook_url,
    terms: {
      amountMicros: BigInt(row.amount_micros),
      warnPercent: row.warn_percent,
      isStop: row.is_stop,
    },
    state: {
      period: row.period,
      warnedPercent: row.warned_percent,
      isStopped: row.stopped_at !== null,
    },
    stoppedAt: row.stopped_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
