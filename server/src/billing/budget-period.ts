// The months that budgets go by, in UTC, and their ends. Pure.
import { must } from "#lib/assert.ts";

/** The month that an instant lies in. */
export function periodOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 7);
}

/** The first instant behind the month. */
export function endOfPeriod(period: string): number {
  const [year, month] = period.split("-").map(Number);
  return Date.UTC(must(year, "a period has a year"), must(month, "a period has a month"), 1);
}
