// What tests of coupons have in common: an operator who makes them, a project that applies them,
// and the ledger.
import assert from "node:assert/strict";
import { sql } from "kysely";
import type { TestContext } from "node:test";
import { appliedCoupon, operatorCoupon } from "@slipway/contract/billing-answers.ts";
import { faultAnswer } from "@slipway/contract/answers.ts";
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import {
  startManagementApi,
  type ApiAnswer,
  type ApiUnderTest,
  type CallOptions,
  type Json,
} from "./support/management-api.ts";

export type CouponStage = {
  readonly api: ApiUnderTest;
  readonly operator: string;
  /**
   * Makes a coupon over the wire: USD 100 once, but for the fields given; undefined leaves one out.
   */
  make(fields?: Readonly<Record<string, unknown>>): Promise<Json>;
  /** Applies a code; the answer has the form that the contract says. */
  apply(
    code: unknown,
    options?: CallOptions & { readonly projectId?: ProjectId },
  ): Promise<ApiAnswer>;
};

/** A real API with an operator; closed after the test. */
export async function couponStage(
  t: TestContext,
  options: { readonly clock?: Clock } = {},
): Promise<CouponStage> {
  const api = await startManagementApi(t, options);
  const operator = await api.issue({ kind: "operator" });
  return {
    api,
    operator,
    async make(fields = {}) {
      const standard = {
        code: "WELCOME",
        name: "Welcome",
        coupon_type: "fixed_amount",
        amount_cents: 10_000,
      };
      const body = { ...standard, amount_currency: "USD", frequency: "once", ...fields };
      const made = await api.call("POST", "/v2/operator/coupons", { token: operator, body });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return operatorCoupon.parse(made.body);
    },
    async apply(code, { projectId = api.projectId, ...given } = {}) {
      const path = `/v2/projects/${projectId}/billing/coupons/apply`;
      const answer = await api.call("POST", path, { body: { coupon_code: code }, ...given });
      if (answer.status === 200) appliedCoupon.parse(answer.body);
      else faultAnswer.parse(answer.body);
      return answer;
    },
  };
}

/** The entries of the ledger, oldest first. */
export async function ledgerOf({ db }: Pick<ApiUnderTest, "db">): Promise<Json[]> {
  const { rows } = await sql`
    select e.account, e.coupon_code as code, e.amount_micros as micros, t.kind, t.project_id as project, t.currency
      from ledger_entries e join ledger_transactions t on t.id = e.transaction_id
     order by t.created_at, t.id, e.number`.execute(db);
  return rows;
}

/** The audit rows about coupons, oldest first. */
export async function auditOf({ db }: Pick<ApiUnderTest, "db">): Promise<Json[]> {
  return await db
    .selectFrom("audit_log")
    .select([
      "action",
      "outcome",
      "project_id",
      "actor_type",
      "resource_type",
      "resource_name",
      "changes",
      "reason",
    ])
    .where("action", "like", "coupon.%")
    .orderBy("id")
    .execute();
}
