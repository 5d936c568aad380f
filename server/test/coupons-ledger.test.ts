// The ledger on a real database: what does not balance, is changed later or would take a credit
// below zero is refused there, whoever writes it; and applications that come at once are counted
// exactly.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import { sql } from "kysely";
import { CouponUseCases } from "#billing/coupons/coupon-use-cases.ts";
import { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import { plansOfNoFile } from "#billing/plans/plan.ts";
import { termsOf, type CouponWish } from "#billing/coupons/coupon.ts";
import { drawEntries } from "#billing/coupons/draw.ts";
import { move } from "#billing/entry.ts";
import { post } from "#billing/ledger.ts";
import { settle, type AppliedCoupon } from "#billing/coupons/settle.ts";
import { must } from "#lib/assert.ts";
import { systemClock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { ofCents, readCurrency, wholeCents, type Money } from "#lib/money.ts";
import type { Db } from "#store/database.ts";
import { insertProject } from "#accounts/project-store.ts";
import { newProjectId } from "#lib/ids.ts";
import { auditOf, ledgerOf } from "./coupons-stage.ts";
import { byPlatform } from "./support/accounts.ts";
import { testDatabase } from "./support/database.ts";

const usd = must(readCurrency("USD"), "dollars are known");

const wish: CouponWish = {
  code: "WELCOME",
  name: "Welcome",
  coupon_type: "fixed_amount",
  amount_cents: 10_000,
  amount_currency: "USD",
  percentage_rate: null,
  frequency: "once",
  frequency_duration: null,
  expiration_at: null,
  reusable: false,
  max_uses: null,
  plans: null,
};

async function fixture(
  t: TestContext,
): Promise<{ db: Db; useCases: CouponUseCases; addProject: () => Promise<ProjectId> }> {
  const { db } = await testDatabase(t);
  const addProject = async (): Promise<ProjectId> => {
    const id = newProjectId();
    await insertProject(db, { id, name: "test" });
    return id;
  };
  const plans = new PlanUseCases({ db, plans: plansOfNoFile, clock: systemClock });
  return { db, useCases: new CouponUseCases({ db, clock: systemClock, plans }), addProject };
}

/** A project with one applied coupon: USD 100. */
async function credited(t: TestContext) {
  const stage = await fixture(t);
  const projectId = await stage.addProject();
  await stage.useCases.create(termsOf(wish), byPlatform);
  await stage.useCases.apply(projectId, "WELCOME", byPlatform);
  const { id } = await stage.db
    .selectFrom("coupon_applications")
    .select("id")
    .executeTakeFirstOrThrow();
  return { ...stage, projectId, applicationId: id };
}

async function balanceOf(db: Db, id: string): Promise<number> {
  const row = await db
    .selectFrom("coupon_applications")
    .select("balance_micros")
    .where("id", "=", id)
    .executeTakeFirstOrThrow();
  return wholeCents({ currency: usd, micros: BigInt(row.balance_micros) });
}

function nameOf(result: PromiseSettledResult<unknown>): string {
  if (result.status === "fulfilled") return "applied";
  const reason: unknown = result.reason;
  if (reason instanceof Fault) return reason.code;
  return reason instanceof Error ? reason.message : "no error";
}

/** How often each code of fault, or "applied", came. */
async function outcomes(tries: readonly Promise<unknown>[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const result of await Promise.allSettled(tries)) {
    const name = nameOf(result);
    found[name] = (found[name] ?? 0) + 1;
  }
  return found;
}

describe("applications at once", () => {
  test("of one project make one, one credit and one audit row", async (t) => {
    const { db, useCases, addProject } = await fixture(t);
    const projectId = await addProject();
    await useCases.create(termsOf(wish), byPlatform);
    const tries = Array.from({ length: 20 }, () =>
      useCases.apply(projectId, "WELCOME", byPlatform),
    );
    assert.deepEqual(await outcomes(tries), { applied: 1, conflict: 19 });
    assert.equal((await ledgerOf({ db })).length, 2);
    assert.deepEqual(
      (await auditOf({ db })).map(({ action }) => action),
      ["coupon.create", "coupon.apply"],
    );
  });

  test("of many projects use a coupon up to max_uses exactly", async (t) => {
    const { db, useCases, addProject } = await fixture(t);
    const projects = await Promise.all(Array.from({ length: 25 }, addProject));
    await useCases.create(termsOf({ ...wish, max_uses: 7 }), byPlatform);
    const tries = projects.map((projectId) => useCases.apply(projectId, "WELCOME", byPlatform));
    assert.deepEqual(await outcomes(tries), { applied: 7, not_usable: 18 });
    assert.equal((await ledgerOf({ db })).length, 14);
    assert.equal((await useCases.list({ before: null, size: 10 })).items[0]?.uses, 7);
  });

  test("and its end: whoever is not told that it was applied has nothing", async (t) => {
    const { db, useCases, addProject } = await fixture(t);
    const projects = await Promise.all(Array.from({ length: 12 }, addProject));
    await useCases.create(termsOf(wish), byPlatform);
    // Watched from the beginning: one may be refused before the end is answered.
    const tries = outcomes(
      projects.map((projectId) => useCases.apply(projectId, "WELCOME", byPlatform)),
    );
    await useCases.end("WELCOME", byPlatform);
    const { applied = 0, not_found: refused = 0 } = await tries;
    assert.equal(applied + refused, 12);
    assert.equal((await ledgerOf({ db })).length, 2 * applied);
    assert.deepEqual(
      await outcomes([useCases.apply(must(projects[0], "a project"), "WELCOME", byPlatform)]),
      {
        not_found: 1,
      },
    );
  });

  test("of makers of one code make one coupon", async (t) => {
    const { useCases } = await fixture(t);
    const tries = Array.from({ length: 8 }, () => useCases.create(termsOf(wish), byPlatform));
    assert.deepEqual(await outcomes(tries), { applied: 1, conflict: 7 });
  });
});

describe("the ledger refuses", () => {
  test("to change or remove what it holds", async (t) => {
    const { db } = await credited(t);
    const before = await ledgerOf({ db });
    for (const table of ["ledger_entries", "ledger_transactions"]) {
      const name = sql.table(table);
      const change = table === "ledger_entries" ? sql`amount_micros = 1` : sql`currency = 'EUR'`;
      for (const statement of [
        sql`update ${name} set ${change}`,
        sql`delete from ${name}`,
        sql`truncate ${name} cascade`,
      ]) {
        await assert.rejects(statement.execute(db), /permission denied for table/);
        const asTheirOwner = db.transaction().execute(async (tx) => {
          await sql`set local role none`.execute(tx);
          await statement.execute(tx);
        });
        await assert.rejects(asTheirOwner, /never changed or removed/);
      }
    }
    assert.deepEqual(await ledgerOf({ db }), before);
  });

  test("a transaction whose sum is not zero, one without entries, and entries that come later", async (t) => {
    const { db, projectId, applicationId } = await credited(t);
    const transaction = { kind: "coupon.draw", project_id: projectId, currency: "USD" } as const;
    const entry = {
      application_id: applicationId,
      coupon_code: "WELCOME",
      account: "promotions",
    } as const;
    const write = (amounts: readonly number[]) =>
      db.transaction().execute(async (tx) => {
        const id = randomUUID();
        await tx
          .insertInto("ledger_transactions")
          .values({ id, reference: id, ...transaction })
          .execute();
        for (const [number, amount] of amounts.entries()) {
          await tx
            .insertInto("ledger_entries")
            .values({ transaction_id: id, number, ...entry, amount_micros: amount })
            .execute();
        }
        return id;
      });
    await assert.rejects(write([5, -4]), /does not balance: 2 entries, sum 1/);
    await assert.rejects(write([]), /does not balance: 0 entries/);
    await assert.rejects(write([5]), /does not balance: 1 entries/);
    const id = await write([5, -5]);
    const late = { transaction_id: id, number: 2, ...entry, amount_micros: 1 };
    await assert.rejects(
      db.insertInto("ledger_entries").values(late).execute(),
      /is complete already/,
    );
  });

  test("to take a credit below zero, and then nothing of that transaction is there", async (t) => {
    const { db, projectId, applicationId } = await credited(t);
    const draw = (cents: number, reference: string) => {
      const place = {
        from: "receivable",
        to: "coupon_credit",
        applicationId,
        couponCode: "WELCOME",
      } as const;
      const entries = move(ofCents(usd, cents), place);
      return db
        .transaction()
        .execute((tx) =>
          post(tx, { reference, kind: "coupon.draw", projectId, currency: usd, entries }),
        );
    };
    assert.equal(await draw(6_000, "first"), true);
    assert.equal(await balanceOf(db, applicationId), 4_000);
    assert.equal(await draw(6_000, "first"), false, "a repeat of the same counts once");
    await assert.rejects(draw(4_001, "second"), /balance_micros/);
    assert.equal(await balanceOf(db, applicationId), 4_000);
    assert.equal((await ledgerOf({ db })).length, 4);
    const both = await Promise.allSettled([draw(2_500, "third"), draw(2_500, "fourth")]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    assert.equal(await balanceOf(db, applicationId), 1_500);
  });
});

test("usage draws a credit down entry by entry, and a record that arrives late moves what was drawn", async (t) => {
  const { db, projectId, applicationId } = await credited(t);
  const appliedAtMs = Date.UTC(2026, 0, 1);
  const discount = { kind: "fixed_amount", amount: ofCents(usd, 10_000) } as const;
  const coupon: AppliedCoupon = {
    id: applicationId,
    number: 1,
    couponId: "coupon",
    couponCode: "WELCOME",
    discount,
    frequency: { kind: "once" },
    appliedAtMs,
    expiresAtMs: null,
  };
  const used = (id: string, month: number, amount: Money) => ({
    id,
    atMs: Date.UTC(2026, month, 2),
    amount,
  });
  const arriving = [
    used("b", 1, ofCents(usd, 7_000)),
    used("c", 2, ofCents(usd, 9_000)),
    used("a", 0, ofCents(usd, 500)),
  ];
  const lefts = [3_000, 0, 0];
  let before = settle(usd, [coupon], []);
  for (const [index, left] of lefts.entries()) {
    const after = settle(usd, [coupon], arriving.slice(0, index + 1));
    const entries = drawEntries([coupon], before, after);
    if (entries.length > 0) {
      const posting = {
        reference: `usage ${index}`,
        kind: "coupon.draw",
        projectId,
        currency: usd,
        entries,
      } as const;
      await db.transaction().execute((tx) => post(tx, posting));
    }
    assert.equal(await balanceOf(db, applicationId), left);
    before = after;
  }
  assert.deepEqual(
    before.drawn.map(({ period, amount }) => [period, wholeCents(amount)]),
    [
      ["2026-01", 500],
      ["2026-02", 7_000],
      ["2026-03", 2_500],
    ],
  );
  const { rows } = await sql<{ account: string; cents: number }>`
    select account, (sum(amount_micros) / 10000)::int as cents from ledger_entries group by account order by account`.execute(
    db,
  );
  assert.deepEqual(rows, [
    { account: "coupon_credit", cents: 0 },
    { account: "promotions", cents: 10_000 },
    { account: "receivable", cents: -10_000 },
  ]);
});
