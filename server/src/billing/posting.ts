// Posts usage to the ledger, in the caller's transaction: writes how usage and discounts differ
// from the last posting. Idempotent, since only differences are posted.
import type { ProjectId } from "#lib/ids.ts";
import type { Currency } from "#lib/money.ts";
import type { Db, Tx } from "#store/database.ts";
import { readApplied, type AppliedRow } from "./coupons/applied-store.ts";
import { readAccountCurrency } from "./coupons/coupon-store.ts";
import {
  basesOf,
  changedBases,
  changedDraws,
  chargesDue,
  drawsDue,
  usageItems,
  type Bases,
} from "./due-postings.ts";
import { post } from "./ledger.ts";
import { periodOf } from "./period.ts";
import * as store from "./posting-store.ts";
import { settle, type AppliedCoupon, type UsageSettlement } from "./coupons/settle.ts";
import { readStretches } from "./usage/usage-sums-store.ts";

/** The usage of a project so far, and its discounts. */
export type SettledUsage = {
  readonly currency: Currency;
  readonly applied: readonly AppliedRow[];
  readonly bases: Bases;
  readonly settlement: UsageSettlement;
};

/**
 * Computes usage and discounts from the sums of stretches, since the ledger is a little behind. No
 * locks.
 */
export async function settledUsage(db: Db | Tx, projectId: ProjectId): Promise<SettledUsage> {
  const currency = await readAccountCurrency(db, projectId);
  const applied = await readApplied(db, projectId);
  const usage = usageItems(currency, await readStretches(db, projectId));
  return { currency, applied, bases: basesOf(usage), settlement: settle(currency, applied, usage) };
}

/** Runs `read` on one snapshot of the database, because usage may change while it is read. */
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

export type PostingRequest = {
  readonly projectId: ProjectId;
  readonly currency: Currency;
  readonly applied: readonly AppliedCoupon[];
  /** The number of postings so far; the account is locked, so this posting is the next. */
  readonly postings: number;
  readonly nowMs: number;
};

/**
 * Posts the differences. The caller holds the lock on the project's account, and has cut the
 * stretches at all borders of `applied`.
 */
export async function postUsage(tx: Tx, request: PostingRequest): Promise<void> {
  const { projectId, currency, applied, postings, nowMs } = request;
  const thisPeriod = periodOf(nowMs);
  const usage = usageItems(currency, await readStretches(tx, projectId));
  const posted = await store.readPosted(tx, projectId);
  const drawnBefore = await store.readDrawn(tx, projectId, currency);
  const closed = await store.readClosedPeriods(tx, projectId);
  const settlement = settle(currency, applied, usage);
  const changed = changedBases(basesOf(usage), posted, thisPeriod);
  const due = [
    ...chargesDue(currency, changed, { posted, closed }),
    ...drawsDue(applied, drawnBefore, settlement),
  ];
  for (const [index, { kind, entries, period }] of due.entries()) {
    const reference = `usage ${projectId} ${postings + 1} ${index}`;
    await post(tx, { kind, entries, period, reference, projectId, currency });
  }
  await store.writePosted(tx, projectId, changed);
  // Changes to a closed statement go into this month's statement, so this month gets one even if it
  // has no usage.
  if (due.some(({ period }) => closed.has(period)))
    await store.addPeriod(tx, projectId, thisPeriod);
  await store.writeDrawn(tx, changedDraws(currency, drawnBefore, settlement.drawn));
  await store.countPosting(tx, projectId);
}
