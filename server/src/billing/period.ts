// Months and days (UTC), by which usage is summed up and stated, and budgets go. Pure.

/** A month, of the form 2026-01. */
export type Period = string;

/** The month that an instant lies in. */
export function periodOf(atMs: number): Period {
  return new Date(atMs).toISOString().slice(0, 7);
}

/** The first instant of a month, and the first after it. */
export function boundsOf(period: Period): { readonly fromMs: number; readonly toMs: number } {
  const year = Number(period.slice(0, 4));
  const month = Number(period.slice(5, 7));
  return { fromMs: Date.UTC(year, month - 1), toMs: Date.UTC(year, month) };
}

/** The month after this one. */
export function nextPeriod(period: Period): Period {
  return periodOf(boundsOf(period).toMs);
}

/** The day that an instant lies in, of the form 2026-01-31. */
export function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

/** The first day of the month and that of the next one, of the form 2026-01-31. */
export function daysOf(period: Period): { readonly from: string; readonly to: string } {
  const { fromMs, toMs } = boundsOf(period);
  return { from: dayOf(fromMs), to: dayOf(toMs) };
}
