// The monthly credit of plans: a fixed-amount coupon, renewed in each month with usage. The
// platform applies it to the project automatically, and ends it when the project changes its plan.
// Usage draws it down like any other coupon.
import { createHash } from "node:crypto";
import { tryLockProject } from "#accounts/project-store.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { openAccount } from "#billing/coupons/coupon-store.ts";
import type { ProjectPlan, Plans } from "./plan.ts";
import * as store from "./plan-credit-store.ts";

/** How many projects one turn handles; the next turn continues. */
const projectsMax = 500;

/**
 * Replaces the project's credit with the plan's, from now on. The project's row must be locked.
 * Idempotent.
 */
export async function setPlanCredit(
  tx: Tx,
  project: { readonly projectId: ProjectId; readonly plan: ProjectPlan; readonly nowMs: number },
): Promise<void> {
  const { projectId, plan, nowMs } = project;
  const couponId = plan.monthlyCreditCents === 0 ? null : couponIdOf(plan);
  const now = new Date(nowMs);
  const current = await store.readCredits(tx, projectId);
  const others = current.filter((credit) => credit.couponId !== couponId).map(({ id }) => id);
  // A current credit that is not among `others` is the plan's own, which the project has already.
  const isGranted = current.length > others.length;
  if (others.length === 0 && (couponId === null || isGranted)) return;
  await openAccount(tx, projectId);
  if (others.length > 0) await store.endCredits(tx, others, now);
  if (couponId === null || isGranted) return;
  await store.addCoupon(tx, couponId, plan);
  await store.insertCredit(tx, { projectId, couponId, at: now });
}

/**
 * One turn: updates projects whose credit differs from their plan's, because they are new or the
 * file has changed. Returns the number of these projects.
 */
export async function setPlanCredits(db: Db, plans: Plans, nowMs: number): Promise<number> {
  const plansWithCredit = [...plans.byName.values()].filter(
    ({ monthlyCreditCents }) => monthlyCreditCents > 0,
  );
  const names = plansWithCredit.map(({ name }) => name);
  const ids = plansWithCredit.map(couponIdOf);
  const projectIds = await store.readOutdated(db, {
    credits: { names, ids },
    known: [...plans.byName.keys()],
    standard: plans.standard.name,
    limit: projectsMax,
  });
  for (const projectId of projectIds) {
    await db.transaction().execute(async (tx) => {
      const project = await tryLockProject(tx, projectId);
      const plan =
        project === undefined ? undefined : plans.byName.get(project.plan ?? plans.standard.name);
      // An unknown plan was assigned by a platform that knows it and handles its credit.
      if (plan !== undefined) await setPlanCredit(tx, { projectId, plan, nowMs });
    });
  }
  return projectIds.length;
}

/**
 * A UUID of the plan and its amount: a changed amount gives another coupon. The first 8 is the
 * UUID's version, for ids that an application makes in its own way; the second 8 is its variant.
 */
function couponIdOf({ name, monthlyCreditCents }: ProjectPlan): string {
  const hex = createHash("sha256")
    .update(`plan credit ${name} ${monthlyCreditCents}`)
    .digest("hex");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
