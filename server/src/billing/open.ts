// Opens billing: the plans, which limit what projects may do, and everything about money: usage,
// coupons, statements and budgets.
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { AppRoute } from "#apps/routes.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { readOperatorFile } from "#lib/operator-file.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import type { Allowance } from "#scheduler/allowance.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import type { DaysOfProjects } from "#store/steps-by-app.ts";
import { budgetNotices, type OwnerMail } from "./budgets/budget-notices.ts";
import { stopReason } from "./budgets/budget-text.ts";
import { BudgetUseCases } from "./budgets/budget-use-cases.ts";
import { BudgetWatch } from "./budgets/budget-watch.ts";
import { CouponUseCases } from "./coupons/coupon-use-cases.ts";
import { admittingReceiver } from "./plans/admission.ts";
import { PlanCache } from "./plans/plan-cache.ts";
import { setPlanCredits } from "./plans/plan-credit.ts";
import { readPlans } from "./plans/plan-file.ts";
import { plansInUse } from "./plans/plan-store.ts";
import { PlanUseCases } from "./plans/plan-use-cases.ts";
import { plansOfNoFile, type PlanDefaults, type Plans } from "./plans/plan.ts";
import { StatementQueries } from "./statements/statement-queries.ts";
import type { MeterStep } from "./usage/meter-step.ts";
import { Meter } from "./usage/meter.ts";
import { readPrices } from "./usage/price-file.ts";
import { builtInPrices, priceAt, type PriceOf, type Prices } from "./usage/prices.ts";
import { UsageQueries } from "./usage/usage-queries.ts";

export type PlanSettings = {
  /** The operator's file of plans, relative to the platform's working directory; null: none. */
  readonly plansFile: string | null;
  /** This number and the next three are the defaults of plans that do not set their own. */
  readonly auditRetentionDays: number;
  readonly logRetentionDays: number;
  readonly callRetentionDays: number;
  readonly callRecordsPerMinute: number;
};

export type BillingSettings = {
  /** The operator's file of prices, a path as in `plansFile`; null: the built-in prices apply. */
  readonly pricesFile: string | null;
  /** The time between two turns of metering. */
  readonly meteringSeconds: number;
};

/** What the rest of the platform uses of plans and budgets. */
export type OpenedPlans = {
  /** The plans of projects, for the API. */
  readonly plans: { readonly useCases: PlanUseCases; readonly defaults: PlanDefaults };
  /** How long a project's plan keeps audit entries; null: as configured in the settings. */
  readonly planDaysOf: (projectId: ProjectId) => number | null;
  /** What projects may start, for the scheduler. */
  readonly allowance: Allowance;
  /** Why an app's calls are refused, for the proxy; null: they are not. */
  readonly refusalOf: (route: AppRoute) => Fault | null;
  /** How long each project's logs are kept; null while no plan sets it. */
  readonly logDaysOf: DaysOfProjects;
  /** How long each project's records of plain calls are kept; null while no plan sets it. */
  readonly callDaysOf: DaysOfProjects;
  /** How many successful plain calls of an app are recorded per minute. */
  readonly callRecordsOf: (projectId: ProjectId) => number;
  /** Wraps a build receiver: accepts only builds that the plan allows and no budget stops. */
  readonly receiverOver: (builds: BuildReceiver) => BuildReceiver;
};

/** A new project, or one whose plan has another credit now, gets the credit within this time. */
const creditsEveryMs = 10_000;
/** How many notices of budgets are sent at once; there are few. */
const noticesAtOnceMax = 16;
/** How many metering turns one posting to the ledger covers. */
const turnsOfPosting = 10;

/** Opens plans; they are loaded when this resolves. Throws `CannotStart` for an invalid file. */
export async function openPlans(
  settings: PlanSettings,
  foundation: Foundation,
): Promise<OpenedPlans> {
  const { db, notifications, lifecycle, log, clock } = foundation;
  const plans = plansIn(settings.plansFile);
  await refuseUnknown(db, plans);
  const cache = new PlanCache({ db, notifications, plans, clock, log });
  await cache.start();
  lifecycle.onClose("plans", () => cache.stop());
  const giveCredits = async (): Promise<void> => {
    const changed = await setPlanCredits(db, plans, clock.now());
    if (changed > 0) log.info({ changed }, "gave projects the monthly credit of their plans");
  };
  // A credit begins at the time of the clock, which must not be far off.
  const timing = { intervalMs: creditsEveryMs, waitsForClock: true };
  const credits = { name: "credits of plans", turn: giveCredits };
  new Loop({ ...credits, ...timing, clock, log }).startWithin(lifecycle);
  const useCases = new PlanUseCases({ db, plans, clock });
  const defaults = {
    auditDays: settings.auditRetentionDays,
    logDays: settings.logRetentionDays,
    callDays: settings.callRetentionDays,
    callRecordsPerMinute: settings.callRecordsPerMinute,
  };
  const daysOf = (field: "logRetentionDays" | "callRetentionDays"): ReturnType<DaysOfProjects> => {
    const plansInForce = [plans.standard, ...cache.projectsWithPlan().map(({ plan }) => plan)];
    if (plansInForce.every((plan) => plan[field] === null)) return null;
    return (projectId) => cache.planOf(projectId)[field] ?? settings[field];
  };
  const stopOf = (projectId: ProjectId, appId: AppId): string | undefined => {
    const stop = cache.stopOf(projectId, appId);
    return stop === null ? undefined : stopReason({ projectId, appId }, stop);
  };
  const refusal = (projectId: ProjectId, appId: AppId): Fault | null => {
    const reason = stopOf(projectId, appId);
    return reason === undefined ? null : new Fault("budget_reached", reason);
  };
  return {
    plans: { useCases, defaults },
    allowance: allowanceOf(cache, stopOf),
    planDaysOf: (projectId) => cache.planOf(projectId).auditRetentionDays,
    refusalOf: ({ projectId, appId }) => refusal(projectId, appId),
    logDaysOf: () => daysOf("logRetentionDays"),
    callDaysOf: () => daysOf("callRetentionDays"),
    callRecordsOf: (projectId) =>
      cache.planOf(projectId).callRecordsPerMinute ?? settings.callRecordsPerMinute,
    receiverOver: (builds) => admittingReceiver(builds, { plans: useCases, refusal }),
  };
}

type BillingParts = Foundation & {
  readonly plans: PlanUseCases;
  /** The guard of all requests to URLs that users choose. */
  readonly guard: OutwardGuard;
  /** Null: mail is not configured. */
  readonly mail: OwnerMail | null;
  /** For tests, which kill the platform after a step of metering. */
  readonly onStep: (step: MeterStep) => void;
};

/**
 * Opens the use cases for money, and metering, whose loops start and end with the platform. Throws
 * `CannotStart` for invalid prices.
 */
export function openBilling(settings: BillingSettings, parts: BillingParts) {
  const { db, clock, log, lifecycle, plans, onStep } = parts;
  const { budgets, onPosted } = openBudgets(parts);
  const { pricesFile } = settings;
  const intervalMs = settings.meteringSeconds * 1000;
  const prices = pricesFile === null ? builtInPrices : readPricesFile(pricesFile);
  const meter = new Meter({
    db,
    clock,
    log,
    intervalMs,
    onPosted,
    onStep,
    prices,
    // The turn that first counts the usage is one of the turns, so the delay is one turn shorter.
    postingDelayMs: (turnsOfPosting - 1) * intervalMs,
  });
  meter.loop.startWithin(lifecycle);
  return {
    budgets,
    coupons: new CouponUseCases({ db, clock, plans }),
    usage: new UsageQueries({ db, clock }),
    statements: new StatementQueries({ db, clock }),
    priceOf: ((where) => priceAt(prices, where, clock.now())) satisfies PriceOf,
  };
}

function openBudgets(parts: BillingParts) {
  const { db, lifecycle, log, clock, guard, mail } = parts;
  const client = new OutwardClient({
    guard,
    clock,
    userAgent: "Slipway",
    totalMax: noticesAtOnceMax,
  });
  const notices = budgetNotices({ db, client, mail, clock, log });
  const common = { db, clock, log, hasMail: mail !== null };
  const onStep = (): void => notices.nudge();
  const watch = new BudgetWatch({ ...common, onStep });
  lifecycle.onClose("notices of budgets", async () => {
    client.close();
    await notices.stop();
  });
  lifecycle.onStart(() => notices.start());
  watch.loop.startWithin(lifecycle);
  return {
    budgets: new BudgetUseCases({ ...common, checkUrl: (url) => guard.checkUrl(url), onStep }),
    onPosted: (projectId: ProjectId): void => watch.posted(projectId),
  };
}

function plansIn(plansFile: string | null): Plans {
  return plansFile === null
    ? plansOfNoFile
    : readOperatorFile("SLIPWAY_PLANS_FILE", plansFile, readPlans);
}

/**
 * Throws `CannotStart` when a project has a plan that is not in the file, since the limits of the
 * project would be unknown.
 */
async function refuseUnknown(db: Db, { byName }: Plans): Promise<void> {
  for (const [name, projects] of await plansInUse(db)) {
    if (byName.has(name)) continue;
    const whose = projects === 1 ? "1 project has" : `${projects} projects have`;
    throw new CannotStart(
      `${whose} the plan "${name}", which SLIPWAY_PLANS_FILE does not contain. Put it back, start, and assign another plan to these projects (PATCH /v2/operator/projects/{project_id}) before you remove it.`,
    );
  }
}

function allowanceOf(
  cache: PlanCache,
  stopOf: (projectId: ProjectId, appId: AppId) => string | undefined,
): Allowance {
  return {
    stopOf(projectId, appId) {
      const reason = stopOf(projectId, appId);
      return reason === undefined ? undefined : { code: "budget_reached", reason };
    },
    limitsOf(projectId) {
      const { name, replicasMax, gpusMax } = cache.planOf(projectId);
      return { name: `The plan "${name}"`, replicasMax, gpusMax };
    },
    onChange: (listener) => cache.onChange(listener),
  };
}

function readPricesFile(file: string): Prices {
  return readOperatorFile("SLIPWAY_PRICES_FILE", file, (text) => readPrices(text, computeTypes));
}
