// Connects plans and budgets: the file of plans, what of it and of budgets is held in memory, and what holds the rest of the
// platform to it. Parts below billing declare what they ask; here it is answered.
import type { PlanParts } from "#api/plans.ts";
import type { BuildDesk } from "#apps/build-desk.ts";
import type { Route } from "#apps/routes.ts";
import { BudgetDesk } from "#billing/budget-desk.ts";
import { budgetNotices, type OwnerMail } from "#billing/budget-notices.ts";
import { BudgetWatch } from "#billing/budget-watch.ts";
import { stopReason } from "#billing/budget-word.ts";
import { PlanBook } from "#billing/plan-book.ts";
import { setPlanCredits } from "#billing/plan-credit.ts";
import { PlanDesk } from "#billing/plan-desk.ts";
import { readPlans } from "#billing/plan-file.ts";
import { plansOfNoFile, type Plans } from "#billing/plan.ts";
import { plansInUse } from "#billing/plan-store.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import type { Allowance } from "#scheduler/allowance.ts";
import type { Db } from "#store/database.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";
import { readOperatorFile } from "./platform-operator-file.ts";

/** What the rest of the platform asks of plans and budgets. */
export type OpenedPlans = {
  readonly plans: PlanParts;
  readonly book: PlanBook;
  /** For the scheduler. */
  readonly allowance: Allowance;
  /** For the proxy. */
  readonly refusalOf: (route: Route) => Fault | null;
  /** For the retention of logs: null while no plan says how long they are kept. */
  readonly logDaysOf: () => ((projectId: ProjectId) => number) | null;
  /** For whoever takes on builds: lets in what the plan allows and no budget stops. */
  readonly admitting: (desk: BuildDesk) => BuildDesk;
};

/** A project that was made a moment ago, or whose default plan has another credit now, has it within this time. */
const creditsEveryMs = 10_000;
/** Word of budgets is rare. */
const wordsAtOnceMax = 16;

/** Opens plans; they are known when this resolves. Throws `CannotStart` for a file that cannot be used. */
export async function openPlans(config: Config, foundation: Foundation): Promise<OpenedPlans> {
  const { db, notifications, lifecycle, log, clock } = foundation;
  const plans = plansOf(config);
  await refuseUnknown(db, plans);
  const book = new PlanBook({ db, notifications, plans, clock, log });
  await book.start();
  lifecycle.onClose("plans", () => book.stop());
  const turn = async (): Promise<void> => {
    const changed = await setPlanCredits(db, plans, clock.now());
    if (changed > 0) log.info({ changed }, "gave projects the monthly credit of their plans");
  };
  const credits = new Loop({
    name: "credits of plans",
    intervalMs: creditsEveryMs,
    waitsForClock: true,
    turn,
    clock,
    log,
  });
  credits.start();
  lifecycle.onClose("credits of plans", () => credits.stop());
  const desk = new PlanDesk({ db, plans, clock });
  const days = { audit: config.auditRetentionDays, logs: config.logRetentionDays };
  const stopOf = (projectId: ProjectId, appId: AppId): string | undefined => {
    const stop = book.stopOf(projectId, appId);
    return stop === null ? undefined : stopReason({ projectId, appId }, stop);
  };
  const refusal = (projectId: ProjectId, appId: AppId): Fault | null => {
    const reason = stopOf(projectId, appId);
    return reason === undefined ? null : new Fault("budget_reached", reason);
  };
  return {
    ...{ plans: { desk, days }, book, allowance: allowanceOf(book, stopOf) },
    refusalOf: ({ projectId, appId }) => refusal(projectId, appId),
    logDaysOf() {
      const used = [plans.standard, ...book.projectsWithPlan().map(({ plan }) => plan)];
      if (used.every(({ logRetentionDays }) => logRetentionDays === null)) return null;
      return (projectId) => book.planOf(projectId).logRetentionDays ?? config.logRetentionDays;
    },
    admitting: (builds) => admittingDesk(builds, { desk, refusal }),
  };
}

/** What the API does with budgets, and who is to be told when usage was posted. */
export type OpenedBudgets = { readonly budgets: BudgetDesk; readonly posted: (projectId: ProjectId) => void };

/** Opens budgets; their loops end with the platform. */
export function openBudgets(
  foundation: Foundation & { readonly guard: OutwardGuard; readonly mail: OwnerMail | null },
): OpenedBudgets {
  const { db, lifecycle, log, clock, guard, mail } = foundation;
  const client = new OutwardClient({ guard, clock, userAgent: "Slipway", totalMax: wordsAtOnceMax });
  const notices = budgetNotices({ db, client, mail, clock, log });
  const parts = { db, clock, log, hasMail: mail !== null };
  const watch = new BudgetWatch({ ...parts, onStep: () => notices.nudge() });
  lifecycle.onClose("word of budgets", async () => {
    client.close();
    await notices.stop();
  });
  lifecycle.onClose("budgets", () => watch.stop());
  notices.start();
  watch.start();
  return {
    budgets: new BudgetDesk({ ...parts, checkUrl: (url) => guard.checkUrl(url), onStep: () => notices.nudge() }),
    posted: (projectId) => watch.posted(projectId),
  };
}

function plansOf({ plansFile }: Config): Plans {
  return plansFile === null ? plansOfNoFile : readOperatorFile("SLIPWAY_PLANS_FILE", plansFile, readPlans);
}

/** A limit must not end because a plan was taken out of the file while projects have it. */
async function refuseUnknown(db: Db, { byName }: Plans): Promise<void> {
  for (const [name, projects] of await plansInUse(db)) {
    if (byName.has(name)) continue;
    const whose = projects === 1 ? "1 project has" : `${projects} projects have`;
    throw new CannotStart(
      `${whose} the plan "${name}", which SLIPWAY_PLANS_FILE does not contain. Put it back, start, and assign another plan to these projects (PATCH /v2/operator/projects/{project_id}) before you remove it.`,
    );
  }
}

function allowanceOf(book: PlanBook, stopOf: Allowance["stopOf"]): Allowance {
  return {
    stopOf,
    limitsOf(projectId) {
      const { name, replicasMax, gpusMax } = book.planOf(projectId);
      return { name: `The plan "${name}"`, replicasMax, gpusMax };
    },
    onChange: (listener) => book.onChange(listener),
  };
}

/** Lets in what the plan allows and nothing stops. */
export function admittingDesk(
  builds: BuildDesk,
  {
    desk,
    refusal,
  }: { readonly desk: PlanDesk; readonly refusal: (projectId: ProjectId, appId: AppId) => Fault | null },
): BuildDesk {
  const requireOpen = (projectId: ProjectId, appId: AppId): void => {
    const fault = refusal(projectId, appId);
    if (fault !== null) throw fault;
  };
  return {
    async receiveBuild(tx, build) {
      requireOpen(build.projectId, build.appId);
      if (build.cause === "create") await desk.admitApp(tx, build.projectId);
      return await builds.receiveBuild(tx, build);
    },
    async rebuild(tx, build) {
      requireOpen(build.projectId, build.appId);
      return await builds.rebuild(tx, build);
    },
    requestCancel: (tx, build) => builds.requestCancel(tx, build),
  };
}
