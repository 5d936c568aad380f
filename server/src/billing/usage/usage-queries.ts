// The API's usage queries: costs and discounts, sums by group, the ledger, applied coupons. All but
// the ledger are computed from sums by day and by stretch, which lag about a minute behind; the
// ledger lags further behind.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Currency, Money } from "#lib/money.ts";
import { pageOf, type Page } from "#lib/page-token.ts";
import type { AppliedRow } from "#billing/coupons/applied-store.ts";
import { creditAtBegin, creditNow, type CreditOf } from "#billing/coupons/coupon-credit.ts";
import { readAccountCurrency } from "#billing/coupons/coupon-store.ts";
import { drawnIn, isInForceIn } from "#billing/coupons/settle.ts";
import { readLedger, type LedgerTransaction } from "#billing/ledger-store.ts";
import { daysOf, periodOf, type Period } from "#billing/period.ts";
import { readSnapshot, settledUsage } from "#billing/posting.ts";
import * as store from "./usage-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** An applied coupon and its value. */
export type CouponCredit = {
  readonly coupon: AppliedRow;
  /** The maximum discount in the month, before any usage. */
  readonly atBegin: Money;
  /** The maximum further discount now. */
  readonly now: Money;
  /** All discounts of the coupon so far. */
  readonly drawn: Money;
  readonly isEnded: boolean;
};

/** The usage of a project in a month, its cost and its discounts. */
export type CostOfMonth = {
  readonly month: Period;
  readonly currency: Currency;
  readonly sums: store.UsageSums;
  readonly discountMicros: bigint;
  /** Coupons that could discount in the month, oldest first. */
  readonly coupons: readonly CouponCredit[];
};

/** The queries. They take no locks. */
export class UsageQueries {
  readonly #parts: Pick<Foundation, "db" | "clock">;

  constructor(parts: Pick<Foundation, "db" | "clock">) {
    this.#parts = parts;
  }

  /** The cost of a project in a month; null: the current month (UTC). */
  async cost(projectId: ProjectId, month: Period | null): Promise<CostOfMonth> {
    const period = month ?? periodOf(this.#parts.clock.now());
    const { sums, currency, applied, settlement } = await readSnapshot(
      this.#parts.db,
      async (tx) => ({
        sums: await store.readUsage(tx, { projectId, ...daysOf(period) }),
        ...(await settledUsage(tx, projectId)),
      }),
    );
    const discountMicros = drawnIn(settlement.drawn, period);
    const inForce = applied.filter((coupon) => isInForceIn(coupon, period));
    const inputs = { applied, settlement, nowMs: this.#parts.clock.now() };
    const coupons = inForce.map((coupon) => creditOf(coupon, period, inputs));
    return { month: period, currency, sums, discountMicros, coupons };
  }

  /** The cost of an app in a month, before coupons, which belong to the project. */
  async costOfApp(
    projectId: ProjectId,
    appId: AppId,
    month: Period | null,
  ): Promise<Pick<CostOfMonth, "month" | "currency" | "sums">> {
    const period = month ?? periodOf(this.#parts.clock.now());
    const sums = await store.readUsage(this.#parts.db, { projectId, appId, ...daysOf(period) });
    return { month: period, currency: await readAccountCurrency(this.#parts.db, projectId), sums };
  }

  /** Sums of usage, by group and in total. */
  async usage(
    window: store.UsageWindow,
    grouping: store.Grouping,
  ): Promise<{
    readonly currency: Currency;
    readonly groups: readonly store.UsageGroup[];
    readonly total: store.UsageSums;
  }> {
    return await readSnapshot(this.#parts.db, async (tx) => ({
      currency: await readAccountCurrency(tx, window.projectId),
      groups: await store.readUsageBy(tx, window, grouping),
      total: await store.readUsage(tx, window),
    }));
  }

  /** A page of the ledger, newest first; its token is the number of its last transaction. */
  async ledger(page: {
    readonly projectId: ProjectId;
    readonly before: number | null;
    readonly size: number;
  }): Promise<Page<LedgerTransaction>> {
    const { projectId, before, size } = page;
    // One more row shows whether there is another page.
    const rows = await readLedger(this.#parts.db, { projectId, before, limit: size + 1 });
    return pageOf(rows, size, (last) => String(last.number));
  }

  /** All coupons that the project has applied, oldest first. */
  async coupons(projectId: ProjectId): Promise<CouponCredit[]> {
    const nowMs = this.#parts.clock.now();
    const { applied, settlement } = await readSnapshot(this.#parts.db, (tx) =>
      settledUsage(tx, projectId),
    );
    return applied.map((coupon) =>
      creditOf(coupon, periodOf(nowMs), { applied, settlement, nowMs }),
    );
  }
}

function creditOf(coupon: AppliedRow, period: Period, inputs: CreditOf): CouponCredit {
  const { settlement, nowMs } = inputs;
  const drawn = settlement.drawn
    .filter(({ applicationId }) => applicationId === coupon.id)
    .reduce((sum, { amount }) => sum + amount.micros, 0n);
  return {
    coupon,
    atBegin: creditAtBegin(coupon, period, inputs),
    now: creditNow(coupon, inputs),
    drawn: { currency: settlement.base.currency, micros: drawn },
    isEnded: coupon.expiresAtMs !== null && coupon.expiresAtMs <= nowMs,
  };
}
