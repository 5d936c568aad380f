// Use cases of coupons: the operator creates, lists and ends them, projects apply them. Called by
// the API; a change, its ledger entries and its audit row are one transaction.
import { randomUUID } from "node:crypto";
import { record, type By } from "#audit/record.ts";
import { move } from "#billing/entry.ts";
import { post } from "#billing/ledger.ts";
import type { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { nothing, type Currency, type Money } from "#lib/money.ts";
import { pageOf, type Page } from "#lib/page-token.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./coupon-store.ts";
import { isCredit, usable, type Coupon, type CouponTerms } from "./coupon.ts";

/** An applied coupon. `balance` is its whole fixed amount; zero for a percentage. */
export type AppliedAnswer = {
  readonly coupon: Coupon;
  readonly currency: Currency;
  readonly balance: Money;
};

type CouponParts = Pick<Foundation, "db" | "clock"> & {
  readonly plans: Pick<PlanUseCases, "names" | "planOf">;
};

/** The use cases. They throw `Fault("invalid" | "not_found" | "conflict" | "not_usable")`. */
export class CouponUseCases {
  readonly #parts: CouponParts;

  constructor(parts: CouponParts) {
    this.#parts = parts;
  }

  /** Creates a coupon. Its code may have belonged to a coupon that has ended. */
  async create(terms: CouponTerms, by: By): Promise<Coupon> {
    const { code, name, expiresAt, isReusable, usesMax, plans } = terms;
    const unknown = plans?.find((plan) => !this.#parts.plans.names.includes(plan));
    if (unknown !== undefined) {
      const names = this.#parts.plans.names.join(", ");
      throw new Fault(
        "invalid",
        `plans names ${JSON.stringify(unknown)}, but must name existing plans: ${names}.`,
      );
    }
    return await this.#parts.db.transaction().execute(async (tx) => {
      const inserted = await store.insertCoupon(tx, {
        id: randomUUID(),
        code,
        name,
        ...store.columnsOf(terms),
        expires_at: expiresAt,
        is_reusable: isReusable,
        uses_max: usesMax,
        plans: plans === null ? null : [...plans],
      });
      if (inserted === null)
        throw new Fault(
          "conflict",
          `There is already a coupon with the code "${code}"; end it first.`,
        );
      await recordChange(tx, { action: "coupon.create", projectId: null, coupon: inserted, by });
      return inserted;
    });
  }

  /**
   * Lists coupons, newest first, including ended ones. The token of a page is the number of its
   * last coupon.
   */
  async list(page: {
    readonly before: number | null;
    readonly size: number;
  }): Promise<Page<Coupon>> {
    const rows = await store.listCoupons(this.#parts.db, {
      before: page.before,
      // One more row shows whether there is another page.
      limit: page.size + 1,
    });
    return pageOf(rows, page.size, (last) => String(last.number));
  }

  /** Ends a coupon: it can no longer be applied; projects that have applied it keep it. */
  async end(code: string, by: By): Promise<Coupon> {
    return await this.#parts.db.transaction().execute(async (tx) => {
      const ended = await store.endCoupon(tx, code);
      if (ended === null)
        throw new Fault("not_found", "There is no coupon with this code, or it has ended.");
      await recordChange(tx, { action: "coupon.end", projectId: null, coupon: ended, by });
      return ended;
    });
  }

  /**
   * Applies the coupon with this code to an existing project. For an unknown code and for an
   * unusable coupon the same statements run, so that the time of the answer does not tell one from
   * the other.
   */
  async apply(projectId: ProjectId, code: string, by: By): Promise<AppliedAnswer> {
    return await this.#parts.db.transaction().execute(async (tx) => {
      const currency = await store.openAccount(tx, projectId);
      // The lock prevents others from applying or ending this coupon, so what is read next stays
      // true.
      const locked = await store.lockCoupon(tx, code);
      const isApplied = await store.isApplied(tx, projectId, locked?.id ?? null);
      const plan = await this.#parts.plans.planOf(tx, projectId);
      const nowMs = this.#parts.clock.now();
      const coupon = usable({ coupon: locked, isApplied, currency, plan, nowMs });
      if (coupon instanceof Fault) throw coupon;
      const id = randomUUID();
      await store.insertApplication(tx, {
        id,
        project_id: projectId,
        coupon_id: coupon.id,
        created_at: new Date(this.#parts.clock.now()),
      });
      await grant(tx, { projectId, applicationId: id, coupon });
      await recordChange(tx, { action: "coupon.apply", projectId, coupon, by });
      const { discount } = coupon;
      const balance = discount.kind === "fixed_amount" ? discount.amount : nothing(currency);
      // The coupon was read before this use was counted.
      return { coupon: { ...coupon, uses: coupon.uses + 1 }, currency, balance };
    });
  }
}

/**
 * A one-time credit is granted to the project now; other coupons move money only when there is
 * usage.
 */
async function grant(
  tx: Tx,
  application: { projectId: ProjectId; applicationId: string; coupon: Coupon },
): Promise<void> {
  const { projectId, applicationId, coupon } = application;
  const { discount, code } = coupon;
  if (discount.kind !== "fixed_amount" || !isCredit(coupon)) return;
  const { amount } = discount;
  const accounts = {
    from: "coupon_credit",
    to: "promotions",
    applicationId,
    couponCode: code,
  } as const;
  const reference = `grant ${applicationId}`;
  const entries = move(amount, accounts);
  await post(tx, {
    reference,
    kind: "coupon.grant",
    projectId,
    currency: amount.currency,
    entries,
  });
}

type CouponChange = {
  readonly action: "coupon.create" | "coupon.end" | "coupon.apply";
  readonly projectId: ProjectId | null;
  readonly coupon: Coupon;
  readonly by: By;
};

async function recordChange(
  tx: Tx,
  { action, projectId, coupon, by }: CouponChange,
): Promise<void> {
  const { id, code, expiresAt, isReusable, usesMax, plans } = coupon;
  const columns = Object.entries({
    ...store.columnsOf(coupon),
    expiresAt,
    isReusable,
    usesMax,
    plans,
  });
  const fields = columns
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, { new: value }] as const);
  const changes =
    action === "coupon.end" ? { endedAt: { new: coupon.endedAt } } : Object.fromEntries(fields);
  await record(tx, {
    projectId,
    action,
    by,
    resource: { type: "coupon", id, name: code },
    changes,
  });
}
