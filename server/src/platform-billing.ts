// Connects what money is about: prices, metering, usage, statements, coupons.
import { computeTypes } from "@slipway/contract/app-choices.ts";
import { CouponUseCases } from "#billing/coupons/coupon-use-cases.ts";
import { Meter } from "#billing/usage/meter.ts";
import type { MeterStep } from "#billing/usage/meter-step.ts";
import type { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import { readPrices } from "#billing/usage/price-file.ts";
import { builtInPrices, type Prices } from "#billing/usage/prices.ts";
import { StatementQueries } from "#billing/statements/statement-queries.ts";
import { UsageQueries } from "#billing/usage/usage-queries.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";
import { readOperatorFile } from "./platform-operator-file.ts";

/** What the API does with money. */
export type BillingParts = {
  readonly coupons: CouponUseCases;
  readonly usage: UsageQueries;
  readonly statements: StatementQueries;
};

/** Who is told of what metering does. */
export type BillingEvents = {
  readonly onPosted: (projectId: ProjectId) => void;
  readonly onStep: (step: MeterStep) => void;
};

/** Of how many turns of metering the ledger takes in one go. */
const turnsOfPosting = 10;

/** Opens it, and begins to meter; its loops end with the platform. Throws `CannotStart` for prices that cannot be used. */
export function openBilling(
  config: Config,
  foundation: Foundation & { readonly plans: PlanUseCases },
  told: BillingEvents,
): BillingParts {
  const { db, clock, log, lifecycle, plans } = foundation;
  const intervalMs = config.meteringSeconds * 1000;
  const meter = new Meter({
    ...{ db, clock, log, intervalMs, prices: pricesOf(config), ...told },
    postingDelayMs: (turnsOfPosting - 1) * intervalMs,
  });
  meter.start();
  lifecycle.onClose("metering", () => meter.stop());
  const parts = { db, clock };
  return {
    coupons: new CouponUseCases({ ...parts, plans }),
    usage: new UsageQueries(parts),
    statements: new StatementQueries(parts),
  };
}

function pricesOf({ pricesFile }: Config): Prices {
  if (pricesFile === null) return builtInPrices;
  return readOperatorFile("SLIPWAY_PRICES_FILE", pricesFile, (text) => readPrices(text, computeTypes));
}
