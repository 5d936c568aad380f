// Posts usage to the ledger: writes what has changed since the last posting, of usage and of
// discounts, in the caller's transaction. Idempotent: only differences are posted.
import type { ProjectId } from "#lib/ids.ts";
import { nothing, smaller, type Currency, type Money } from "#lib/money.ts";
import type { Db, Tx } from "#store/database.ts";
import { readApplied, type AppliedRow } from "./coupons/applied-store.ts";
import { readAccountCurrency } from "./coupons/coupon-store.ts";
import { drawEntries } from "./coupons/draw.ts";
import { move, type LedgerEntry } from "./entry.ts";
import { post, type Posting } from "./ledger.ts";
import { periodOf, type Period } from "./period.ts";
import * as store from "./posting-store.ts";
import {
  settle,
  type AppliedCoupon,
  type Drawn,
  type UsageSettlement,
  type UsageItem,
} from "./coupons/settle.ts";
import { readStretches } from "./usage/usage-sums-store.ts";

/** The known usage of a project, and its discounts. */
export type SettledUsage = {
  readonly currency: Currency;
  readonly applied: readonly AppliedRow[];
  /** Month → micro-units before coupons. */
  readonly bases: ReadonlyMap<Period, bigint>;
  readonly settlement: UsageSettlement;
};

/** Recomputed from a small number of sums: the ledger lags behind. No locks. */
export async function settledUsage(db: Db | Tx, projectId: ProjectId): Promise<SettledUsage> {
  const currency = await readAccountCurrency(db, projectId);
  const applied = await readApplied(db, projectId);
  const usage = usageOf(currency, await readStretches(db, projectId));
  return { currency, applied, bases: basesOf(usage), settlement: settle(currency, applied, usage) };
}

/** Reads one snapshot, because usage is counted concurrently. */
export async function readSnapshot<Result>(
  db: Db,
  read: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  return await db
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(read);
}

/** A project's usage in the form for coupons: one record per stretch. */
function usageOf(
  currency: Currency,
  stretches: readonly { atMs: number; micros: bigint }[],
): UsageItem[] {
  return stretches.map(({ atMs, micros }) => ({
    id: String(atMs),
    atMs,
    amount: { currency, micros },
  }));
}

export type PostingRequest = {
  readonly projectId: ProjectId;
  readonly currency: Currency;
  readonly applied: readonly AppliedCoupon[];
  /** The number of postings so far; the account is locked, so this one is next. */
  readonly postings: number;
  readonly nowMs: number;
};

/**
 * Posts what has changed. The stretches must be cut at all borders of `applied`, and the account
 * locked.
 */
export async function postUsage(tx: Tx, request: PostingRequest): Promise<void> {
  const { projectId, currency, applied, postings, nowMs } = request;
  const thisPeriod = periodOf(nowMs);
  const usage = usageOf(currency, await readStretches(tx, projectId));
  const posted = await store.readPosted(tx, projectId);
  const drawnBefore = await store.readDrawn(tx, projectId, currency);
  const closed = await store.readClosedPeriods(tx, projectId);
  const settlement = settle(currency, applied, usage);
  const bases = basesOf(usage);
  // Records months with zero cost too; stretches of future months exist when a coupon ends in them.
  const changed = new Map(
    [...bases].filter(
      ([period, micros]) =>
        posted.get(period) !== micros && (micros !== 0n || period <= thisPeriod),
    ),
  );
  const charges = [...changed].flatMap(([period, micros]): Part[] => {
    const amount = { currency, micros: micros - (posted.get(period) ?? 0n) };
    if (amount.micros === 0n) return [];
    const isCorrection = closed.has(period) || amount.micros < 0n;
    return [
      {
        kind: isCorrection ? "usage.correction" : "usage.charge",
        period,
        entries: chargeEntries(amount),
      },
    ];
  });
  const draws = drawParts(applied, drawnBefore, settlement);
  for (const [index, part] of [...charges, ...draws].entries()) {
    const reference = `usage ${projectId} ${postings + 1} ${index}`;
    await post(tx, { ...part, reference, projectId, currency } satisfies Posting);
  }
  await store.writePosted(tx, projectId, changed);
  // Changes to a closed statement go into this month's, even without usage.
  if ([...charges, ...draws].some(({ period }) => closed.has(period)))
    await store.addPeriod(tx, projectId, thisPeriod);
  await store.writeDrawn(tx, changedDraws(currency, drawnBefore, settlement.drawn));
  await store.countPosting(tx, projectId);
}

type Part = Pick<Posting, "kind" | "entries"> & { readonly period: Period };

function basesOf(usage: readonly UsageItem[]): Map<Period, bigint> {
  const bases = new Map<Period, bigint>();
  for (const { atMs, amount } of usage) {
    const period = periodOf(atMs);
    bases.set(period, (bases.get(period) ?? 0n) + amount.micros);
  }
  return bases;
}

/** Usage creates a debt. */
function chargeEntries(amount: Money): LedgerEntry[] {
  return move(amount, { from: "revenue", to: "receivable", applicationId: null, couponCode: null });
}

/** By month, refunds first: no credit goes below zero in between. */
function drawParts(
  applied: readonly AppliedCoupon[],
  before: readonly Drawn[],
  after: UsageSettlement,
): Part[] {
  const { currency } = after.base;
  const earlier = amountsOf(before);
  const later = amountsOf(after.drawn);
  const kept = [...earlier].flatMap(([key, drawn]) => {
    const now = later.get(key);
    return now === undefined ? [] : [{ ...drawn, amount: smaller(drawn.amount, now.amount) }];
  });
  const periods = [...new Set([...before, ...after.drawn].map(({ period }) => period))].sort();
  const step = (from: readonly Drawn[], to: readonly Drawn[]): Part[] =>
    periods.flatMap((period) => {
      const of = (drawn: readonly Drawn[]): UsageSettlement => ({
        base: nothing(currency),
        drawn: drawn.filter((one) => one.period === period),
        net: nothing(currency),
      });
      const entries = drawEntries(applied, of(from), of(to));
      return entries.length === 0 ? [] : [{ kind: "coupon.draw", period, entries }];
    });
  return [...step(before, kept), ...step(kept, after.drawn)];
}

function amountsOf(drawn: readonly Drawn[]): Map<string, Drawn> {
  return new Map(drawn.map((one) => [`${one.applicationId} ${one.period}`, one]));
}

function changedDraws(
  currency: Currency,
  before: readonly Drawn[],
  after: readonly Drawn[],
): Drawn[] {
  const earlier = amountsOf(before);
  const later = amountsOf(after);
  const gone = before
    .filter((one) => !later.has(keyOf(one)))
    .map((one) => ({ ...one, amount: nothing(currency) }));
  return [
    ...gone,
    ...after.filter((one) => earlier.get(keyOf(one))?.amount.micros !== one.amount.micros),
  ];
}

function keyOf({ applicationId, period }: Drawn): string {
  return `${applicationId} ${period}`;
}
