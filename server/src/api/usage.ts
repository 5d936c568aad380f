// Route handlers for the usage of projects: its cost, its sums, the ledger, and applied coupons.
import type { z } from "zod";
import type {
  appCost,
  ledgerPage,
  projectCost,
  usageAnswer,
} from "@slipway/contract/usage-routes.ts";
import { shown } from "#apps/refusal.ts";
import type { CostOfMonth, CouponCredit } from "#billing/usage/usage-queries.ts";
import { costOf, type Grouping, type UsageGroup } from "#billing/usage/usage-store.ts";
import { Fault } from "#lib/fault.ts";
import { percentageOf, wholeCents } from "#lib/money.ts";
import { appOf, pageBefore, projectOf, showPage, type ApiCall, type Handlers } from "./call.ts";
import { centsOf, microsOf, secondsOf, showSums, sumInCents } from "./show-money.ts";
import type { HandlerParts } from "./parts.ts";

const dayMs = 86_400_000;
/** The longest period of a request, a year and a month, which bounds the rows of an answer. */
const daysMax = 400;

/** Route handlers for usage. */
export function usageHandlers({ usage: queries, apps, clock }: HandlerParts) {
  return {
    async getProjectCost(call) {
      return showCost(await queries.cost(projectOf(call), monthOf(call)));
    },
    async getAppCost(call) {
      const projectId = projectOf(call);
      const appId = appOf(call);
      await apps.require(projectId, appId);
      const cost = await queries.costOfApp(projectId, appId, monthOf(call));
      return { summary: summaryOf(cost) } satisfies z.infer<typeof appCost>;
    },
    async getUsage(call) {
      const { from, to } = windowOf(call, clock.now());
      const grouping = call.query["group_by"] as Grouping;
      const { currency, groups, total } = await queries.usage(
        { projectId: projectOf(call), from, to },
        grouping,
      );
      return {
        from,
        to,
        group_by: grouping,
        currency,
        items: groups.map((group) => ({ ...keysOf(group), ...showSums(group) })),
        total: showSums(total),
      } satisfies z.infer<typeof usageAnswer>;
    },
    async listLedger(call) {
      const page = await queries.ledger({ projectId: projectOf(call), ...pageBefore(call) });
      return showPage(page, ({ id, kind, period, currency, createdAt, entries }) => ({
        id,
        kind,
        month: period,
        currency,
        created_at: createdAt.toISOString(),
        entries: entries.map(({ account, couponCode, micros }) => ({
          account,
          coupon_code: couponCode,
          amount_micros: microsOf(micros),
        })),
      })) satisfies z.infer<typeof ledgerPage>;
    },
    async listAppliedCoupons(call) {
      return { items: (await queries.coupons(projectOf(call))).map(showCredit) };
    },
  } satisfies Handlers;
}

/** The month of the query; null: it names none. */
function monthOf({ query }: ApiCall): string | null {
  const month = query["month"] ?? null;
  return month === null ? null : String(month);
}

/**
 * The period of the query; the day `to` is not part of it. Without `to`, today is the last day;
 * without `from`, the period begins with the month of its last day.
 */
function windowOf(call: ApiCall, nowMs: number): { readonly from: string; readonly to: string } {
  const requestedFrom = dayOf(call, "from");
  const requestedTo = dayOf(call, "to");
  // In an ISO time, the first ten characters are the day, and the first seven are its month.
  const to = requestedTo ?? new Date(nowMs + dayMs).toISOString().slice(0, 10);
  const lastDayMs = requestedTo === null ? nowMs : Date.parse(to) - dayMs;
  const from = requestedFrom ?? `${new Date(lastDayMs).toISOString().slice(0, 7)}-01`;
  const days = (Date.parse(to) - Date.parse(from)) / dayMs;
  if (days < 0)
    throw new Fault(
      "invalid",
      `from is ${shown(from)}, but must not be after to, which is ${shown(to)}.`,
    );
  if (days > daysMax) {
    throw new Fault(
      "invalid",
      `to is ${shown(to)}, but must be at most ${daysMax} days after from, which is ${shown(from)}.`,
    );
  }
  return { from, to };
}

/** A day of the query; null: it names none. Throws `Fault("invalid")` if there is no such day. */
function dayOf({ query }: ApiCall, name: "from" | "to"): string | null {
  const value = query[name] ?? null;
  if (value === null) return null;
  const atMs = Date.parse(`${String(value)}T00:00:00Z`);
  // `Date` turns a day such as 2026-02-30 into one in March.
  const isDay = !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(String(value));
  if (isDay) return String(value);
  throw new Fault(
    "invalid",
    `${name} is ${shown(value)}, but must be a valid day of the form 2026-01-31.`,
  );
}

/** What the group is by: an app, a day, or the hardware; the other members are null then. */
function keysOf({ appId, day, compute, computeTier, pool }: UsageGroup) {
  if (appId !== null) return { app_id: appId };
  if (day !== null) return { day };
  return { compute: compute ?? "", compute_tier: computeTier ?? "", pool: pool ?? "" };
}

function showCost(cost: CostOfMonth): z.infer<typeof projectCost> {
  const { discountMicros, coupons, sums } = cost;
  const usageMicros = costOf(sums);
  // Only statements have corrections.
  const cents = sumInCents({ usage: usageMicros, discounts: discountMicros, corrections: 0n });
  return {
    summary: {
      ...summaryOf(cost),
      discounts_cents: cents.discounts,
      discounts_micros: microsOf(discountMicros),
      combined_cost_after_discounts_cents: cents.total,
      combined_cost_after_discounts_micros: microsOf(usageMicros - discountMicros),
    },
    coupons: coupons.map(showCredit),
  };
}

function summaryOf({ month, currency, sums }: Pick<CostOfMonth, "month" | "currency" | "sums">) {
  const usageMicros = costOf(sums);
  return {
    month,
    currency,
    combined_cost_before_discounts_cents: centsOf(usageMicros),
    combined_cost_before_discounts_micros: microsOf(usageMicros),
    run_cost_micros: microsOf(sums.runMicros),
    build_cost_micros: microsOf(sums.buildMicros),
    storage_cost_micros: microsOf(sums.storageMicros),
    total_replica_seconds: secondsOf(sums.replicaMs),
    total_gpu_seconds: secondsOf(sums.gpuMs),
    total_cpu_core_seconds: secondsOf(sums.coreMs),
    total_memory_gb_seconds: secondsOf(sums.gbMs),
    total_build_seconds: secondsOf(sums.buildMs),
    total_build_count: sums.builds,
    total_storage_gb_seconds: secondsOf(sums.storageGbMs),
  };
}

function showCredit(credit: CouponCredit): z.infer<typeof projectCost>["coupons"][number] {
  const { coupon, atBegin, now, drawn, isEnded } = credit;
  const { couponCode, couponName, discount, frequency, couponExpiresAt, appliedAtMs } = coupon;
  const isFixed = discount.kind === "fixed_amount";
  return {
    code: couponCode,
    name: couponName,
    amount_cents: isFixed ? wholeCents(discount.amount) : 0,
    amount_currency: isFixed ? discount.amount.currency : atBegin.currency,
    frequency: frequency.kind,
    ...(frequency.kind === "recurring" ? { frequency_duration: frequency.periods } : {}),
    ...(isFixed ? {} : { percentage_rate: percentageOf(discount.rate) }),
    ...(couponExpiresAt === null ? {} : { expiration_at: couponExpiresAt.toISOString() }),
    applied_at: new Date(appliedAtMs).toISOString(),
    status: isEnded ? "ended" : "active",
    amount_cents_remaining: wholeCents(atBegin),
    amount_cents_balance: wholeCents(now),
    drawn_micros: microsOf(drawn.micros),
  };
}
