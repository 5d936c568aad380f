// The monthly credit of a plan, drawn down by real metering: up to its amount in each month, from
// the instant at which the project has the plan until that at which it has another one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setPlanCredits } from "#billing/plans/plan-credit.ts";
import { readPlans } from "#billing/plans/plan-file.ts";
import { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import "#test/support/leftovers.ts";
import { byPlatform } from "./support/accounts.ts";
import { plainMicrosPerSecond, usageStage } from "./usage-stage.ts";

const hour = 3_600_000;
const day = 24 * hour;
const begin = Date.UTC(2026, 0, 30);
/** About 28 hours of a plain replica. */
const plans = readPlans(
  'default = "free"\n[plans.free]\nmonthly_credit_cents = 111\n[plans.paid]\n',
);
const credit = 1_110_000n;

const cost = (ms: number): bigint => BigInt(Math.round((ms / 1000) * plainMicrosPerSecond));

test("the credit is taken off each month anew, and what is left of it is lost", async (t) => {
  const stage = await usageStage(t);
  const { db, clock } = stage;
  clock.atMs = begin;
  const projectId = await stage.addProject();
  const place = await stage.addApp(projectId);
  assert.equal(await setPlanCredits(db, plans, clock.now()), 1);
  const replicaId = await stage.addReplica(projectId, place, begin);
  const meter = stage.meter();
  const runUntil = async (atMs: number): Promise<void> => {
    clock.atMs = atMs;
    await stage.seen(replicaId, atMs);
    await meter.turn();
  };
  const drawn = async (): Promise<Record<string, bigint>> => {
    const rows = await db
      .selectFrom("coupon_draws")
      .select(["period", "amount_micros"])
      .orderBy("period")
      .execute();
    return Object.fromEntries(rows.map((row) => [row.period, BigInt(row.amount_micros)]));
  };
  await runUntil(begin + 20 * hour);
  assert.deepEqual(await drawn(), { "2026-01": cost(20 * hour) }, "all of it, while it lasts");
  await runUntil(begin + 2 * day);
  assert.deepEqual(await drawn(), { "2026-01": credit }, "not more than there is");
  // February begins; the project changes its plan twelve hours later.
  const change = begin + 2 * day + 12 * hour;
  await runUntil(change - hour);
  clock.atMs = change;
  await new PlanUseCases({ db, plans, clock }).change(projectId, "paid", byPlatform);
  await runUntil(change + 12 * hour);
  const found = await drawn();
  assert.equal(found["2026-01"], credit);
  const february = found["2026-02"] ?? 0n;
  const expected = cost(12 * hour);
  assert.ok(
    february >= expected - 1n && february <= expected + 1n,
    `${february} is not ${expected}, the time before`,
  );
  assert.equal(await setPlanCredits(db, plans, clock.now()), 0);
  const sums = await stage.sums(projectId);
  assert.equal(sums.receivable, sums.days - sums.drawn, "what is owed is the rest");
  assert.equal(sums.drawn, credit + february);
});
