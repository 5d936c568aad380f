// Decides the state of a budget as money is spent: pure. The same sums give the same state,
// regardless of how often and in which order they are judged; each month starts fresh.

/** The terms of a budget. */
export type BudgetTerms = {
  /** The maximum cost of a month before coupons, in millionths of the currency's unit. */
  readonly amountMicros: bigint;
  /** The percentages of the amount that trigger a warning. */
  readonly warnPercent: readonly number[];
  /** Whether calls are refused once the amount is reached. */
  readonly isStop: boolean;
};

/** The state of a budget in a month. */
export type BudgetState = {
  readonly period: string;
  /** The highest percentage for which a warning was sent; 0: none. */
  readonly warnedPercent: number;
  readonly isStopped: boolean;
};

export type BudgetStep = {
  readonly state: BudgetState;
  /** The percentage for which a warning is due now; null: none. */
  readonly warning: number | null;
  /** Whether the budget begins to stop calls, or ends its stop; null: neither. */
  readonly turn: "stop" | "resume" | null;
};

/** The next step after `before`, given the amount spent in the month. */
export function judgeBudget(
  terms: BudgetTerms,
  before: BudgetState,
  now: { readonly period: string; readonly spentMicros: bigint },
): BudgetStep {
  const { period, spentMicros } = now;
  const warned = before.period === period ? before.warnedPercent : 0;
  const reached = terms.warnPercent.filter(
    (percent) => spentMicros * 100n >= terms.amountMicros * BigInt(percent),
  );
  const warnedPercent = Math.max(warned, ...reached);
  const isStopped = terms.isStop && spentMicros >= terms.amountMicros;
  const wasStopped = before.isStopped && before.period === period;
  let turn: BudgetStep["turn"] = null;
  if (isStopped && !wasStopped) turn = "stop";
  // A stop of an earlier month ends too, although `wasStopped` is false for it.
  else if (!isStopped && before.isStopped) turn = "resume";
  return {
    state: { period, warnedPercent, isStopped },
    warning: warnedPercent > warned ? warnedPercent : null,
    turn,
  };
}
