// What a posting has to write: the difference between what usage and coupons come to now and what
// the ledger has. Pure.
import { nothing, smaller, type Currency, type Money } from "#lib/money.ts";
import { drawEntries } from "./coupons/draw.ts";
import type { AppliedCoupon, Drawn, UsageItem, UsageSettlement } from "./coupons/settle.ts";
import { move, type LedgerEntry } from "./entry.ts";
import type { Posting } from "./ledger.ts";
import { periodOf, type Period } from "./period.ts";

/** A posting of one month, without what all postings of a project have in common. */
export type DuePosting = Pick<Posting, "kind" | "entries"> & { readonly period: Period };

/** Micro-units before coupons, by month. */
export type Bases = ReadonlyMap<Period, bigint>;

/** A project's usage in the form for coupons: one record per stretch. */
export function usageItems(
  currency: Currency,
  stretches: readonly { readonly atMs: number; readonly micros: bigint }[],
): UsageItem[] {
  return stretches.map(({ atMs, micros }) => ({
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
 * The months whose base is to be written. Months with zero cost are among them, but no future ones:
 * stretches of those exist when a coupon ends in them.
 */
export function changedBases(bases: Bases, posted: Bases, thisPeriod: Period): Bases {
  const isDue = ([period, micros]: [Period, bigint]): boolean =>
    posted.get(period) !== micros && (micros !== 0n || period <= thisPeriod);
  return new Map([...bases].filter(isDue));
}

/** Usage makes a debt; less usage than before, or usage of a closed month, is a correction. */
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

/** What coupons pay, by month. Refunds come first: no credit goes below zero in between. */
export function drawsDue(
  applied: readonly AppliedCoupon[],
  before: readonly Drawn[],
  after: UsageSettlement,
): DuePosting[] {
  const { currency } = after.base;
  const drawnAfter = byCouponAndMonth(after.drawn);
  const kept: Drawn[] = [];
  for (const [key, drawn] of byCouponAndMonth(before)) {
    const now = drawnAfter.get(key);
    if (now !== undefined) kept.push({ ...drawn, amount: smaller(drawn.amount, now.amount) });
  }
  const periods = [...new Set([...before, ...after.drawn].map(({ period }) => period))].sort();
  const refunds = periods.flatMap((period) => drawDue(period, before, kept));
  const draws = periods.flatMap((period) => drawDue(period, kept, after.drawn));
  return [...refunds, ...draws];

  function drawDue(period: Period, from: readonly Drawn[], to: readonly Drawn[]): DuePosting[] {
    const entries = drawEntries(applied, drawnIn(period, from), drawnIn(period, to));
    return entries.length === 0 ? [] : [{ kind: "coupon.draw", period, entries }];
  }

  function drawnIn(period: Period, drawn: readonly Drawn[]): UsageSettlement {
    return {
      base: nothing(currency),
      drawn: drawn.filter((one) => one.period === period),
      net: nothing(currency),
    };
  }
}

/** The draws whose amount is another than before; those that are gone have the amount 0. */
export function changedDraws(
  currency: Currency,
  before: readonly Drawn[],
  after: readonly Drawn[],
): Drawn[] {
  const drawnBefore = byCouponAndMonth(before);
  const drawnAfter = byCouponAndMonth(after);
  const gone = before
    .filter((one) => !drawnAfter.has(couponAndMonth(one)))
    .map((one) => ({ ...one, amount: nothing(currency) }));
  const changed = after.filter(
    (one) => drawnBefore.get(couponAndMonth(one))?.amount.micros !== one.amount.micros,
  );
  return [...gone, ...changed];
}

function byCouponAndMonth(drawn: readonly Drawn[]): Map<string, Drawn> {
  return new Map(drawn.map((one) => [couponAndMonth(one), one]));
}

function couponAndMonth({ applicationId, period }: Drawn): string {
  return `${applicationId} ${period}`;
}
