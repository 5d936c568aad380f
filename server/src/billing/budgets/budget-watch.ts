// Judges budgets: those of a project at once when its usage is posted, and all budgets
// periodically, to catch missed changes and the start of a month. Any number of processes may judge
// the same budgets: each step is taken once, under the lock of its budget.
import { periodOf } from "#billing/period.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { takeStep, type BudgetStepParts } from "./budget-step.ts";
import { listBudgets, lockBudget, spentOf, type Budget } from "./budget-store.ts";
import { judgeBudget } from "./budget.ts";

export type BudgetWatchParts = BudgetStepParts & {
  readonly db: Db;
  /** Called after a step: there may be notices to send. */
  readonly onStep: () => void;
};

/**
 * All budgets are judged this often. A stop ends automatically at the start of a month; its end is
 * recorded with this delay at most.
 */
const allEveryMs = 60_000;
/** How many budgets are read at once. */
const pageMax = 200;

/**
 * Judges budgets in a loop: start and stop `loop` with the platform, and call `posted` whenever
 * usage of a project is posted.
 */
export class BudgetWatch {
  readonly #parts: BudgetWatchParts;
  readonly loop: Loop;
  /** The projects whose usage was posted since the last turn. */
  readonly #posted = new Set<ProjectId>();
  #allJudgedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: BudgetWatchParts) {
    const { clock, log } = parts;
    this.#parts = parts;
    const turn = (signal: AbortSignal): Promise<void> => this.#turn(signal);
    this.loop = new Loop({ name: "budgets", intervalMs: allEveryMs, turn, clock, log });
  }

  /** Called when usage of the project was posted. */
  posted(projectId: ProjectId): void {
    this.#posted.add(projectId);
    this.loop.nudge();
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const nowMs = this.#parts.clock.monotonicMs();
    const areAllDue = nowMs - this.#allJudgedAtMs >= allEveryMs;
    // `null` stands for all projects.
    const projectIds = areAllDue ? [null] : [...this.#posted];
    this.#posted.clear();
    for (const projectId of projectIds) await this.#judgeAll(projectId, signal);
    if (areAllDue) this.#allJudgedAtMs = nowMs;
  }

  /** Judges the budgets of a project; null: of all projects. */
  async #judgeAll(projectId: ProjectId | null, signal: AbortSignal): Promise<void> {
    let after: string | null = null;
    do {
      const budgets: Budget[] = await listBudgets(this.#parts.db, {
        projectId,
        after,
        limit: pageMax,
      });
      for (const budget of budgets) {
        if (!signal.aborted) await this.#judge(budget);
      }
      // After a full page there may be another one.
      after = budgets.length === pageMax ? (budgets.at(-1)?.id ?? null) : null;
    } while (after !== null && !signal.aborted);
  }

  /** Judges one budget. Never throws: if its costs cannot be read, the others are still judged. */
  async #judge(budget: Budget): Promise<void> {
    const { db, clock, log, onStep } = this.#parts;
    try {
      const period = periodOf(clock.now());
      const spentMicros = await spentOf(db, budget, period);
      const { state, warning, turn } = judgeBudget(budget.terms, budget.state, {
        period,
        spentMicros,
      });
      // Nothing is to be written then: no event is due, and no new month has begun.
      if (warning === null && turn === null && state.period === budget.state.period) return;
      await db.transaction().execute(async (tx) => {
        // Another process may have taken the step or changed the budget.
        const locked = await lockBudget(tx, budget);
        if (locked !== null) await takeStep(tx, locked, locked.state, this.#parts);
      });
      onStep();
    } catch (error) {
      log.error(
        { err: error, projectId: budget.projectId, appId: budget.appId },
        "a budget could not be checked: until a later check succeeds, it neither warns nor stops anything",
      );
    }
  }
}
