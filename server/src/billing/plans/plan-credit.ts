// The monthly credit of plans: a fixed-amount coupon, renewed in each month with usage. The
// platform applies it to the project automatically, and ends it when the project changes its plan.
// Usage draws it down like any other coupon.
import { createHash, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { tryLockProject } from "#accounts/project-store.ts";
import type { ProjectId } from "#lib/ids.ts";
import { microsOfCent } from "#lib/money.ts";
import { insertNew, type Db, type Tx } from "#store/database.ts";
import { openAccount } from "#billing/coupons/coupon-store.ts";
import type { ProjectPlan, Plans } from "./plan.ts";

/** Projects handled per turn; the next turn continues. */
const projectsMax = 500;

/**
 * Replaces the project's credit with that of the plan, from now on. Its row is locked. Idempotent.
 */
export async function setPlanCredit(
  tx: Tx,
  given: { readonly projectId: ProjectId; readonly plan: ProjectPlan; readonly nowMs: number },
): Promise<void> {
  const { projectId, plan, nowMs } = given;
  const wanted = plan.monthlyCreditCents === 0 ? null : couponIdOf(plan);
  const now = new Date(nowMs);
  const current = await tx
    .selectFrom("coupon_applications")
    .innerJoin("coupons", "coupons.id", "coupon_applications.coupon_id")
    .select(["coupon_applications.id", "coupons.id as coupon_id"])
    .where("coupon_applications.project_id", "=", projectId)
    .where("coupons.is_plan_credit", "=", true)
    .where("coupon_applications.ended_at", "is", null)
    .execute();
  const others = current.filter((one) => one.coupon_id !== wanted).map(({ id }) => id);
  const isThere = current.length > others.length;
  if (others.length === 0 && (wanted === null || isThere)) return;
  await openAccount(tx, projectId);
  if (others.length > 0) {
    await tx
      .updateTable("coupon_applications")
      .set({ ended_at: now })
      .where("id", "in", others)
      .execute();
  }
  if (wanted === null || isThere) return;
  await addCoupon(tx, wanted, plan);
  const row = { id: randomUUID(), project_id: projectId, coupon_id: wanted, created_at: now };
  await tx.insertInto("coupon_applications").values(row).execute();
}

/**
 * One turn: updates projects whose credit differs from their plan's: after a change of the file or
 * the default, or new ones.
 */
export async function setPlanCredits(db: Db, plans: Plans, nowMs: number): Promise<number> {
  const credits = [...plans.byName.values()].filter(
    ({ monthlyCreditCents }) => monthlyCreditCents > 0,
  );
  const names = credits.map(({ name }) => name);
  const ids = credits.map(couponIdOf);
  const { rows } = await sql<{ id: ProjectId }>`
    with wanted as (
      select p.id, c.coupon_id
        from projects p
        left join unnest(${names}::text[], ${ids}::uuid[]) as c (plan, coupon_id) on c.plan = coalesce(p.plan, ${plans.standard.name})
       where p.deleted_at is null and coalesce(p.plan, ${plans.standard.name}) = any(${[...plans.byName.keys()]})
    ), current as (
      select a.project_id, a.coupon_id
        from coupon_applications a join coupons k on k.id = a.coupon_id and k.is_plan_credit
       where a.ended_at is null
    )
    select w.id from wanted w left join current h on h.project_id = w.id
     where h.coupon_id is distinct from w.coupon_id
     order by w.id limit ${projectsMax}`.execute(db);
  for (const { id: projectId } of rows) {
    await db.transaction().execute(async (tx) => {
      const project = await tryLockProject(tx, projectId);
      const plan =
        project === undefined ? undefined : plans.byName.get(project.plan ?? plans.standard.name);
      // An unknown plan was assigned by a platform that knows it and handles its credit.
      if (plan !== undefined) await setPlanCredit(tx, { projectId, plan, nowMs });
    });
  }
  return rows.length;
}

/** The same on every platform: the first that needs it creates it. */
async function addCoupon(
  tx: Tx,
  id: string,
  { name, monthlyCreditCents }: ProjectPlan,
): Promise<void> {
  await insertNew(tx, "coupons", {
    id,
    code: `plan:${name}`,
    name: `Monthly credit of the plan ${name}`,
    coupon_type: "fixed_amount",
    amount_micros: String(BigInt(monthlyCreditCents) * microsOfCent),
    currency: "USD",
    frequency: "forever",
    is_reusable: true,
    is_plan_credit: true,
    ended_at: sql<Date>`clock_timestamp()`,
  });
}

/** A UUID derived from the plan and the amount: another amount gives another coupon. */
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
