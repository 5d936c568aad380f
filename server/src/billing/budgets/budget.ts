// What becomes of a budget as money is spent: pure. The same sums lead to the same state, however often and in whichever
// order they are looked at; a new month begins anew.

/** What a budget says. */
export type BudgetTerms = {
  readonly amountMicros: bigint;
  /** Parts of the amount that are warned of, in percent. */
  readonly warnPercent: readonly number[];
  /** Whether calls are refused once the amount is reached. */
  readonly isStop: boolean;
};

/** What has become of it in a month. */
export type BudgetState = {
  readonly period: string;
  /** The highest percentage that was warned of; 0: none. */
  readonly warnedPercent: number;
  readonly isStopped: boolean;
};

export type BudgetStep = {
  readonly state: BudgetState;
  /** The percentage that is to be warned of now; null: none. */
  readonly warning: number | null;
  /** Whether this stops it, or lets go on what it had stopped. */
  readonly turn: "stop" | "resume" | null;
};

/** The next step after `before`, when so much was spent in the month. */
export function judgeBudget(
  terms: BudgetTerms,
  before: BudgetState,
  now: { readonly period: string; readonly spentMicros: bigint },
): BudgetStep {
  const { period, spentMicros } = now;
  const warned = before.period === period ? before.warnedPercent : 0;
  const reached = terms.warnPercent.filter((percent) => spentMicros * 100n >= terms.amountMicros * BigInt(percent));
  const warnedPercent = Math.max(warned, ...reached);
  const isStopped = terms.isStop && spentMicros >= terms.amountMicros;
  const wasStopped = before.isStopped && before.period === period;
  const turn = isStopped && !wasStopped ? "stop" : !isStopped && before.isStopped ? "resume" : null;
  return {
    state: { period, warnedPercent, isStopped },
    warning: warnedPercent > warned ? warnedPercent : null,
    turn,
  };
}
