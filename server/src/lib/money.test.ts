// Amounts of money: sums and parts are exact, whatever their size, and currencies never mix.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { must } from "./assert.ts";
import {
  minus,
  negative,
  nothing,
  ofCents,
  percentageOf,
  plus,
  rateOf,
  readCurrency,
  shareOf,
  smaller,
  wholeCents,
  type Money,
  type Rate,
} from "./money.ts";

const usd = must(readCurrency("USD"), "dollars are known");
const eur = must(readCurrency("EUR"), "euros are known");
const amount = fc
  .bigInt({ min: -(10n ** 24n), max: 10n ** 24n })
  .map((micros): Money => ({ currency: usd, micros }));
const positive = amount.map(({ micros }): Money => ({
  currency: usd,
  micros: micros < 0n ? -micros : micros,
}));
const rate = fc.integer({ min: 1, max: 10_000_000 }).map((value) => value as Rate);

test("what is added and taken away again leaves the same amount, in any order", () => {
  fc.assert(
    fc.property(amount, amount, amount, (one, two, three) => {
      assert.deepEqual(minus(plus(one, two), two), one);
      assert.deepEqual(plus(plus(one, two), three), plus(three, plus(two, one)));
      assert.deepEqual(plus(one, negative(one)), nothing(usd));
    }),
  );
});

test("amounts of two currencies never meet", () => {
  const euro = ofCents(eur, 100);
  const dollar = ofCents(usd, 100);
  for (const meet of [plus, minus, smaller])
    assert.throws(() => meet(dollar, euro), /of one currency, not of/);
});

test("cents come back as they were, and an amount between two cents is shown as the smaller", () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.bigInt({ min: 0n, max: 9_999n }), (cents, rest) => {
      const whole = ofCents(usd, cents);
      assert.equal(wholeCents(whole), cents);
      assert.equal(wholeCents({ currency: usd, micros: whole.micros + rest }), cents);
    }),
  );
  assert.throws(() => ofCents(usd, 0.5), /whole number/);
  assert.throws(() => wholeCents({ currency: usd, micros: 10n ** 24n }), /fits into whole cents/);
});

test("a share is within half a micro-unit of the exact part, never more than all, and all at 100 percent", () => {
  fc.assert(
    fc.property(positive, rate, (base, part) => {
      const { micros } = shareOf(base, part);
      assert.ok(micros >= 0n && micros <= base.micros);
      const off = micros * 10_000_000n - base.micros * BigInt(part);
      assert.ok(off > -5_000_000n && off <= 5_000_000n, `${off}`);
      assert.equal(shareOf(base, 10_000_000 as Rate).micros, base.micros);
    }),
  );
  assert.throws(() => shareOf(ofCents(usd, -1), 1 as Rate), /not below zero/);
});

test("a percentage with up to five decimals is kept exactly; any other is none", () => {
  fc.assert(
    fc.property(rate, (value) => {
      assert.equal(rateOf(percentageOf(value)), value);
    }),
  );
  assert.equal(rateOf(12.5), 1_250_000);
  assert.equal(rateOf(0.1 + 0.2), null, "0.30000000000000004 has more decimals");
  for (const wrong of [0, -5, 100.00001, 0.000001, 33.333333, Number.NaN, Infinity])
    assert.equal(rateOf(wrong), null);
});

test("only codes of currencies that there are can be one", () => {
  for (const wrong of ["", "usd", "US", "XYZ", "USDX"])
    assert.equal(readCurrency(wrong), null, wrong);
});
