// What coupons take off usage: bounded, conserving, the same in any order of arrival; and the
// entries that make it so.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { LedgerEntry } from "#billing/entry.ts";
import { must } from "#lib/assert.ts";
import { minus, nothing, ofCents, plus, readCurrency, type Money, type Rate } from "#lib/money.ts";
import { isCredit, type Frequency } from "./coupon.ts";
import { drawEntries } from "./draw.ts";
import { settle, type AppliedCoupon, type UsageSettlement, type UsageItem } from "./settle.ts";

const usd = must(readCurrency("USD"), "dollars are known");
const eur = must(readCurrency("EUR"), "euros are known");
const beginMs = Date.UTC(2026, 0, 20);
const dayMs = 86_400_000;
const daysMax = 120;

const atMs = fc
  .integer({ min: 0, max: daysMax * 24 })
  .map((hours) => beginMs + (hours * dayMs) / 24);
const micros = (max: bigint) =>
  fc.bigInt({ min: 0n, max }).map((value): Money => ({ currency: usd, micros: value }));
const frequency: fc.Arbitrary<Frequency> = fc.oneof(
  fc.constant({ kind: "once" } as const),
  fc.constant({ kind: "forever" } as const),
  fc.integer({ min: 1, max: 3 }).map((periods) => ({ kind: "recurring", periods }) as const),
);
const fixed = micros(5_000n).map((amount) => ({
  kind: "fixed_amount" as const,
  amount: plus(amount, { currency: usd, micros: 1n }),
}));
const percentage = fc
  .integer({ min: 1, max: 10_000_000 })
  .map((rate) => ({ kind: "percentage" as const, rate: rate as Rate }));

/** Some of them are of one coupon. */
const coupons = (
  discount: fc.Arbitrary<AppliedCoupon["discount"]>,
): fc.Arbitrary<AppliedCoupon[]> =>
  fc
    .array(
      fc.record({
        discount,
        frequency,
        appliedAtMs: atMs,
        expiresAtMs: fc.option(atMs),
        coupon: fc.nat({ max: 5 }),
      }),
      { maxLength: 6 },
    )
    .map((drafts) =>
      drafts.map(({ coupon, ...draft }, number) => {
        const couponId = `coupon-${coupon}`;
        return {
          ...draft,
          id: `application-${number}`,
          number,
          couponId,
          couponCode: couponId.toUpperCase(),
        };
      }),
    );
const anyCoupons = coupons(fc.oneof(fixed, percentage));
const records = fc
  .array(fc.record({ atMs, amount: micros(3_000n) }), { maxLength: 25 })
  .map((drafts) =>
    drafts.map((draft, number): UsageItem => ({ id: `record-${number}`, ...draft })),
  );

const sum = (amounts: readonly Money[]): Money =>
  amounts.reduce((total, amount) => plus(total, amount), nothing(usd));

describe("any coupons and any usage", () => {
  test("what is taken off is never below zero and never more than there is, and nothing is lost or made", () => {
    fc.assert(
      fc.property(anyCoupons, records, (applied, usage) => {
        const { base, drawn, net } = settle(usd, applied, usage);
        assert.deepEqual(base, sum(usage.map(({ amount }) => amount)));
        assert.deepEqual(plus(sum(drawn.map(({ amount }) => amount)), net), base);
        assert.ok(net.micros >= 0n);
        for (const { amount } of drawn) assert.ok(amount.micros > 0n);
        for (const period of new Set(drawn.map((one) => one.period))) {
          const off = sum(drawn.filter((one) => one.period === period).map(({ amount }) => amount));
          const used = usage.filter((one) => new Date(one.atMs).toISOString().startsWith(period));
          assert.ok(off.micros <= sum(used.map(({ amount }) => amount)).micros, period);
        }
      }),
    );
  });

  test("the result is the same in any order of arrival, with repeats, and when asked again", () => {
    const shuffled = fc.tuple(anyCoupons, records).chain(([applied, usage]) =>
      fc.record({
        applied: fc.constant(applied),
        usage: fc.constant(usage),
        otherApplied: fc.shuffledSubarray(applied, { minLength: applied.length }),
        otherUsage: fc.shuffledSubarray(usage, { minLength: usage.length }),
        repeats: fc.subarray(usage),
      }),
    );
    fc.assert(
      fc.property(shuffled, ({ applied, usage, otherApplied, otherUsage, repeats }) => {
        const first = settle(usd, applied, usage);
        assert.deepEqual(settle(usd, applied, usage), first);
        assert.deepEqual(settle(usd, otherApplied, [...otherUsage, ...repeats]), first);
      }),
    );
  });

  test("no credit is drawn below zero, no month's amount or number of months is passed, and a coupon takes off once a month", () => {
    fc.assert(
      fc.property(anyCoupons, records, (applied, usage) => {
        const settlement = settle(usd, applied, usage);
        const turns = new Map<string, string>();
        for (const coupon of applied) {
          const own = settlement.drawn.filter(({ applicationId }) => applicationId === coupon.id);
          const { discount } = coupon;
          assert.ok(creditLeft(coupon, settlement).micros >= 0n);
          if (coupon.frequency.kind === "recurring")
            assert.ok(own.length <= coupon.frequency.periods);
          if (coupon.frequency.kind === "once" && !isCredit(coupon)) assert.ok(own.length <= 1);
          for (const { amount, period } of own) {
            if (discount.kind === "fixed_amount")
              assert.ok(amount.micros <= discount.amount.micros);
            const turn = `${coupon.couponId} ${period}`;
            assert.equal(turns.has(turn), false);
            turns.set(turn, coupon.id);
          }
        }
      }),
    );
  });

  test("usage before a coupon was applied, or from its expiry on, is not discounted", () => {
    fc.assert(
      fc.property(anyCoupons, records, (applied, usage) => {
        const isCovered = (at: number): boolean =>
          applied.some(
            (one) => one.appliedAtMs <= at && (one.expiresAtMs === null || at < one.expiresAtMs),
          );
        const uncovered = usage.filter((one) => !isCovered(one.atMs));
        const settlement = settle(usd, applied, usage);
        assert.ok(settlement.net.micros >= sum(uncovered.map(({ amount }) => amount)).micros);
        assert.deepEqual(settle(usd, applied, uncovered).drawn, []);
      }),
    );
  });
});

/** Fixed amounts, gone through record by record: slow and plain. Every coupon is applied once. */
function drawnOneByOne(
  applied: readonly AppliedCoupon[],
  usage: readonly UsageItem[],
): Map<string, bigint> {
  const drawn = new Map<string, bigint>();
  const months = new Map<string, Set<string>>();
  for (const record of usage.toSorted((one, other) => one.atMs - other.atMs)) {
    let left = record.amount.micros;
    const month = new Date(record.atMs).toISOString().slice(0, 7);
    for (const { id, discount, frequency: often, appliedAtMs, expiresAtMs } of applied) {
      if (record.atMs < appliedAtMs || (expiresAtMs !== null && record.atMs >= expiresAtMs))
        continue;
      const used = months.get(id) ?? new Set();
      months.set(id, used);
      if (often.kind === "recurring" && !used.has(month) && used.size === often.periods) continue;
      const key = often.kind === "once" ? id : `${id} ${month}`;
      const max =
        discount.kind === "fixed_amount" ? discount.amount.micros - (drawn.get(key) ?? 0n) : 0n;
      const taken = left < max ? left : max;
      if (taken === 0n) continue;
      used.add(month);
      drawn.set(key, (drawn.get(key) ?? 0n) + taken);
      left -= taken;
    }
  }
  return drawn;
}

test("fixed amounts are drawn as if record by record in the order of time, the coupon that was applied first before the others", () => {
  fc.assert(
    fc.property(coupons(fixed), records, (some, usage) => {
      const applied = some.map((coupon) => ({ ...coupon, couponId: coupon.id }));
      const found = new Map<string, bigint>();
      for (const { applicationId, period, amount } of settle(usd, applied, usage).drawn) {
        const isOnce = applied.find(({ id }) => id === applicationId)?.frequency.kind === "once";
        const key = isOnce ? applicationId : `${applicationId} ${period}`;
        found.set(key, (found.get(key) ?? 0n) + amount.micros);
      }
      const sorted = (drawn: Map<string, bigint>) =>
        [...drawn].sort(([one], [other]) => (one < other ? -1 : 1));
      assert.deepEqual(sorted(found), sorted(drawnOneByOne(applied, usage)));
    }),
  );
});

const january = Date.UTC(2026, 0, 1);
const couponOf = (
  number: number,
  given: Pick<AppliedCoupon, "discount" | "frequency"> & Partial<AppliedCoupon>,
): AppliedCoupon => {
  const id = `application-${number}`;
  const names = { id, number, couponId: `coupon-${number}`, couponCode: `CODE-${number}` };
  return { ...names, appliedAtMs: january, expiresAtMs: null, ...given };
};
const dollars = (cents: number) => ({ kind: "fixed_amount", amount: ofCents(usd, cents) }) as const;
const percent = (value: number) =>
  ({ kind: "percentage", rate: (value * 100_000) as Rate }) as const;
const used = (month: number, cents: number): UsageItem => ({
  id: `${month} ${cents}`,
  atMs: Date.UTC(2026, month - 1, 15),
  amount: ofCents(usd, cents),
});
const shown = ({ drawn }: UsageSettlement) =>
  drawn
    .map(
      ({ applicationId, period, amount }) =>
        `${applicationId} ${period} ${amount.micros / 10_000n}`,
    )
    .sort();

describe("how often a coupon takes off", () => {
  test("a fixed amount once goes on until it is used up, and what is left is carried over", () => {
    const coupon = couponOf(1, { discount: dollars(1000), frequency: { kind: "once" } });
    const settlement = settle(
      usd,
      [coupon],
      [used(1, 300), used(2, 400), used(3, 500), used(4, 100)],
    );
    assert.deepEqual(shown(settlement), [
      "application-1 2026-01 300",
      "application-1 2026-02 400",
      "application-1 2026-03 300",
    ]);
    assert.equal(creditLeft(coupon, settlement).micros, 0n);
  });

  test("a fixed amount that recurs is there anew in each month with usage, and what is left of a month is not", () => {
    const coupon = couponOf(1, {
      discount: dollars(400),
      frequency: { kind: "recurring", periods: 2 },
    });
    const settlement = settle(usd, [coupon], [used(1, 100), used(3, 900), used(4, 900)]);
    assert.deepEqual(shown(settlement), ["application-1 2026-01 100", "application-1 2026-03 400"]);
  });

  test("a percentage once takes off in one month, forever in every month", () => {
    const once = couponOf(1, { discount: percent(50), frequency: { kind: "once" } });
    const forever = couponOf(2, { discount: percent(10), frequency: { kind: "forever" } });
    const settlement = settle(usd, [forever, once], [used(1, 1000), used(2, 1000)]);
    assert.deepEqual(shown(settlement), [
      "application-1 2026-01 500",
      "application-2 2026-01 50",
      "application-2 2026-02 100",
    ]);
  });

  test("a coupon is in force from the instant at which it was applied, and not from that at which it expires", () => {
    const during = { appliedAtMs: january + 10, expiresAtMs: january + 20 };
    const coupon = couponOf(1, {
      discount: percent(100),
      frequency: { kind: "forever" },
      ...during,
    });
    const at = (ms: number): UsageItem => ({
      id: `at ${ms}`,
      atMs: january + ms,
      amount: ofCents(usd, 2 ** ms),
    });
    const { drawn } = settle(usd, [coupon], [9, 10, 19, 20].map(at));
    assert.deepEqual(
      drawn.map(({ amount }) => amount),
      [ofCents(usd, 2 ** 10 + 2 ** 19)],
    );
  });

  test("a month in which a coupon takes off is one month, whatever other coupon begins or expires within it", () => {
    const once = couponOf(1, { discount: percent(50), frequency: { kind: "once" } });
    const later = couponOf(2, {
      discount: dollars(1),
      frequency: { kind: "once" },
      appliedAtMs: january + 10,
    });
    const usage = [5, 15].map((ms): UsageItem => ({
      id: `at ${ms}`,
      atMs: january + ms,
      amount: ofCents(usd, 100),
    }));
    assert.deepEqual(shown(settle(usd, [once, later], usage)), [
      "application-1 2026-01 100",
      "application-2 2026-01 1",
    ]);
  });

  test("of one coupon that was applied twice, the second has its turn in the month after the first is used up", () => {
    const twice = [1, 2].map((number) =>
      couponOf(number, { discount: dollars(300), frequency: { kind: "once" }, couponId: "same" }),
    );
    const settlement = settle(usd, twice, [used(1, 500), used(2, 500)]);
    assert.deepEqual(shown(settlement), ["application-1 2026-01 300", "application-2 2026-02 300"]);
  });

  test("a fixed amount in another currency is passed over", () => {
    const discount = { kind: "fixed_amount", amount: ofCents(eur, 500) } as const;
    const coupon = couponOf(1, { discount, frequency: { kind: "once" } });
    assert.deepEqual(settle(usd, [coupon], [used(1, 100)]).drawn, []);
  });
});

/** What the entries leave in each account of each application. */
function balances(entries: readonly LedgerEntry[]): Record<string, bigint> {
  const found: Record<string, bigint> = {};
  for (const { account, applicationId, amount } of entries) {
    const key = `${applicationId} ${account}`;
    found[key] = (found[key] ?? 0n) + amount.micros;
    if (found[key] === 0n) delete found[key];
  }
  return found;
}

describe("entries of draws", () => {
  test("each settlement's entries balance, and those of all steps together are those of the whole, in any order of arrival", () => {
    const steps = fc
      .tuple(anyCoupons, records)
      .chain(([applied, usage]) =>
        fc.tuple(fc.constant(applied), fc.shuffledSubarray(usage, { minLength: usage.length })),
      );
    fc.assert(
      fc.property(steps, ([applied, arriving]) => {
        let before = settle(usd, applied, []);
        const all: LedgerEntry[] = [];
        const left = new Map(
          applied.map((coupon) => [coupon.id, creditLeft(coupon, before).micros]),
        );
        for (const [index] of arriving.entries()) {
          const after = settle(usd, applied, arriving.slice(0, index + 1));
          const entries = drawEntries(applied, before, after);
          assert.equal(sum(entries.map(({ amount }) => amount)).micros, 0n);
          for (const { account, applicationId, amount } of entries) {
            if (account !== "coupon_credit" || applicationId === null) continue;
            const rest = (left.get(applicationId) ?? 0n) - amount.micros;
            assert.ok(rest >= 0n, "no credit is below zero after any entry");
            left.set(applicationId, rest);
          }
          all.push(...entries);
          before = after;
        }
        const whole = drawEntries(applied, settle(usd, applied, []), before);
        assert.deepEqual(balances(all), balances(whole));
        assert.deepEqual(drawEntries(applied, before, before), []);
        for (const coupon of applied)
          assert.equal(left.get(coupon.id), creditLeft(coupon, before).micros);
      }),
    );
  });
});

/**
 * What is left of a credit that is granted once, after what was drawn from it; nothing of any other
 * coupon.
 */
function creditLeft(coupon: AppliedCoupon, settlement: UsageSettlement): Money {
  const none = nothing(settlement.base.currency);
  if (!isCredit(coupon)) return none;
  const { amount } = must(
    coupon.discount.kind === "fixed_amount" ? coupon.discount : null,
    "a credit has an amount",
  );
  if (amount.currency !== none.currency) return amount;
  return settlement.drawn
    .filter(({ applicationId }) => applicationId === coupon.id)
    .reduce((left, drawn) => minus(left, drawn.amount), amount);
}
