// The postings that are due: the difference between the present amounts of usage and coupons and
// the amounts in the ledger. Pure.
import { nothing, smaller, type Currency, type Money } from "#lib/money.ts";
import { drawEntries } from "./coupons/draw.ts";
import type { AppliedCoupon, Drawn, UsageItem, UsageSettlement } from "./coupons/settle.ts";
import { move, type LedgerEntry } from "./entry.ts";
import type { Posting } from "./ledger.ts";
import { periodOf, type Period } from "./period.ts";

/** A posting of one month, without the fields that all postings of a project have in common. */
export type DuePosting = Pick<Posting, "kind" | "entries"> & { readonly period: Period };

/** The cost of each month before coupons, in micro-units. */
export type Bases = ReadonlyMap<Period, bigint>;

/** A project's usage in the form for coupons: one record per stretch. */
export function usageItems(
  currency: Currency,
  stretches: readonly { readonly atMs: number; readonly micros: bigint }[],
): UsageItem[] {
  return stretches.map(({ atMs, micros }) => ({
    // No two stretches begin at the same time.
    id: String(atMs),
    atMs,
    amount: { currency, micros },
  }));
}

/** Sums usage by month, in micro-units before coupons. */
export function basesOf(usage: readonly UsageItem[]): Bases {
  const bases = new Map<Period, bigint>();
  for (const { atMs, amount } of usage) {
    const period = periodOf(atMs);
    bases.set(period, (bases.get(period) ?? 0n) + amount.micros);
  }
  return bases;
}

/**
 * The months whose base must be written. Months with zero cost are included, except future months:
 * a future month has a stretch, without usage, if a coupon ends in it.
 */
export function changedBases(bases: Bases, posted: Bases, thisPeriod: Period): Bases {
  const isDue = ([period, micros]: [Period, bigint]): boolean =>
    posted.get(period) !== micros && (micros !== 0n || period <= thisPeriod);
  return new Map([...bases].filter(isDue));
}

/**
 * The postings of changed usage: charges, or corrections when a month has less usage than before or
 * is closed.
 */
export function chargesDue(
  currency: Currency,
  changed: Bases,
  before: { readonly posted: Bases; readonly closed: ReadonlySet<Period> },
): DuePosting[] {
  const due: DuePosting[] = [];
  for (const [period, micros] of changed) {
    const amount = { currency, micros: micros - (before.posted.get(period) ?? 0n) };
    if (amount.micros === 0n) continue;
    const isCorrection = before.closed.has(period) || amount.micros < 0n;
    const kind = isCorrection ? "usage.correction" : "usage.charge";
    due.push({ kind, period, entries: chargeEntries(amount) });
  }
  return due;
}

function chargeEntries(amount: Money): LedgerEntry[] {
  return move(amount, { from: "revenue", to: "receivable", applicationId: null, couponCode: null });
}

/** The postings of discounts, by month; refunds first, so that no credit goes below zero. */
export function drawsDue(
  applied: readonly AppliedCoupon[],
  before: readonly Drawn[],
  after: UsageSettlement,
): DuePosting[] {
  const { currency } = after.base;
  const drawnAfter = byCouponAndMonth(after.drawn);
  // The draws as they are after all refunds, and before any further draw. A draw that no longer
  // exists is refunded in full, so it is not among them.
  const refunded: Drawn[] = [];
  for (const [key, drawn] of byCouponAndMonth(before)) {
    const now = drawnAfter.get(key);
    if (now !== undefined) refunded.push({ ...drawn, amount: smaller(drawn.amount, now.amount) });
  }
  const periods = [...new Set([...before, ...after.drawn].map(({ period }) => period))].sort();
  const refunds = periods.flatMap((period) => drawDue(period, before, refunded));
  const draws = periods.flatMap((period) => drawDue(period, refunded, after.drawn));
  return [...refunds, ...draws];

  function drawDue(period: Period, from: readonly Drawn[], to: readonly Drawn[]): DuePosting[] {
    const entries = drawEntries(applied, settlementIn(period, from), settlementIn(period, to));
    return entries.length === 0 ? [] : [{ kind: "coupon.draw", period, entries }];
  }

  function settlementIn(period: Period, drawn: readonly Drawn[]): UsageSettlement {
    return {
      // `drawEntries` reads only the draws and the currency.
      base: nothing(currency),
      drawn: drawn.filter((draw) => draw.period === period),
      net: nothing(currency),
    };
  }
}

/** The draws whose amount differs from before; a draw that no longer exists has the amount 0. */
export function changedDraws(
  currency: Currency,
  before: readonly Drawn[],
  after: readonly Drawn[],
): Drawn[] {
  const drawnBefore = byCouponAndMonth(before);
  const drawnAfter = byCouponAndMonth(after);
  const removed = before
    .filter((draw) => !drawnAfter.has(couponAndMonth(draw)))
    .map((draw) => ({ ...draw, amount: nothing(currency) }));
  const changed = after.filter(
    (draw) => drawnBefore.get(couponAndMonth(draw))?.amount.micros !== draw.amount.micros,
  );
  return [...removed, ...changed];
}

function byCouponAndMonth(drawn: readonly Drawn[]): Map<string, Drawn> {
  return new Map(drawn.map((draw) => [couponAndMonth(draw), draw]));
}

function couponAndMonth({ applicationId, period }: Drawn): string {
  return `${applicationId} ${period}`;
}
