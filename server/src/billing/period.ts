// Months and days (UTC), the units of usage sums, statements and budgets. Pure.

/** A month, like 2026-01. */
export type Period = string;

/** The month of an instant. */
export function periodOf(atMs: number): Period {
  return new Date(atMs).toISOString().slice(0, 7);
}

/** The first instant of a month, and of the next month. */
export function boundsOf(period: Period): { readonly fromMs: number; readonly toMs: number } {
  const year = Number(period.slice(0, 4));
  const month = Number(period.slice(5, 7));
  // `Date.UTC` counts months from 0, and takes 12 for January of the next year.
  return { fromMs: Date.UTC(year, month - 1), toMs: Date.UTC(year, month) };
}

/** The month after `period`. */
export function nextPeriod(period: Period): Period {
  return periodOf(boundsOf(period).toMs);
}

/** The day of an instant, like 2026-01-31. */
export function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

/** The first day of the month and of the next month, like 2026-01-01 and 2026-02-01. */
export function daysOf(period: Period): { readonly from: string; readonly to: string } {
  const { fromMs, toMs } = boundsOf(period);
  return { from: dayOf(fromMs), to: dayOf(toMs) };
}
