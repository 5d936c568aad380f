// Months (UTC), which usage is summed up and stated by. Pure.
import { must } from "#lib/assert.ts";

/** A month, of the form 2026-01. */
export type Period = string;

/** The first day of the month and that of the next one, of the form 2026-01-31. */
export function daysOf(period: Period): { readonly from: string; readonly to: string } {
  const [year, month] = period.split("-").map(Number);
  const next = new Date(Date.UTC(must(year, "a period has a year"), must(month, "a period has a month"), 1));
  return { from: `${period}-01`, to: next.toISOString().slice(0, 10) };
}
