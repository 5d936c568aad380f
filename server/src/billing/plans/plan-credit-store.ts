// Queries for the monthly credits of plans, which are coupons that the platform itself applies.
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { microsOfCent } from "#lib/money.ts";
import { insertNew, type Db, type Tx } from "#store/database.ts";
import type { ProjectPlan } from "./plan.ts";

/** The credits of plans that the project has now. No locks. */
export async function readCredits(tx: Tx, projectId: ProjectId) {
  return await tx
    .selectFrom("coupon_applications")
    .innerJoin("coupons", "coupons.id", "coupon_applications.coupon_id")
    .select(["coupon_applications.id", "coupons.id as couponId"])
    .where("coupon_applications.project_id", "=", projectId)
    .where("coupons.is_plan_credit", "=", true)
    .where("coupon_applications.ended_at", "is", null)
    .execute();
}

/** Ends these applications of coupons. */
export async function endCredits(tx: Tx, ids: readonly string[], at: Date): Promise<void> {
  await tx
    .updateTable("coupon_applications")
    .set({ ended_at: at })
    .where("id", "in", ids)
    .execute();
}

/** Applies the coupon of a plan to the project. */
export async function insertCredit(
  tx: Tx,
  credit: { readonly projectId: ProjectId; readonly couponId: string; readonly at: Date },
): Promise<void> {
  const { projectId, couponId, at } = credit;
  const row = { id: randomUUID(), project_id: projectId, coupon_id: couponId, created_at: at };
  await tx.insertInto("coupon_applications").values(row).execute();
}

/** Projects that lack the credit of their plan, or have the credit of another plan. No locks. */
export async function readOutdated(
  db: Db,
  query: {
    /** The plans with a credit, and at the same index the id of the plan's coupon. */
    readonly credits: { readonly names: readonly string[]; readonly ids: readonly string[] };
    /** Names of all plans that this platform knows. */
    readonly known: readonly string[];
    /** The plan of a project that names none. */
    readonly standard: string;
    readonly limit: number;
  },
): Promise<readonly ProjectId[]> {
  const { credits, known, standard, limit } = query;
  const { rows } = await sql<{ id: ProjectId }>`
    with wanted as (
      select p.id, c.coupon_id
        from projects p
        left join unnest(${credits.names}::text[], ${credits.ids}::uuid[]) as c (plan, coupon_id)
          on c.plan = coalesce(p.plan, ${standard})
       where p.deleted_at is null and coalesce(p.plan, ${standard}) = any(${known})
    ), current as (
      select a.project_id, a.coupon_id
        from coupon_applications a join coupons k on k.id = a.coupon_id and k.is_plan_credit
       where a.ended_at is null
    )
    select w.id from wanted w left join current h on h.project_id = w.id
     where h.coupon_id is distinct from w.coupon_id
     order by w.id limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Adds the coupon of a plan's credit unless it exists: every platform uses the same id for it. The
 * coupon has ended from the start, so that nobody can apply it by its code.
 */
export async function addCoupon(
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
