// Amounts as answers show them: in cents, sums add up, and nothing is taken off that is not there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Seeded } from "#test/support/seeded.ts";
import { sumInCents } from "./show-money.ts";

test("cents of usage, discounts and corrections add up to what is owed, and each is within a cent of its exact amount", () => {
  const seeded = new Seeded(7);
  for (let step = 0; step < 2_000; step++) {
    const usage = BigInt(seeded.integer(0, 40_000));
    const discounts = BigInt(seeded.integer(0, Number(usage)));
    const corrections = seeded.chance(0.5) ? 0n : BigInt(seeded.integer(0, 60_000) - 30_000);
    const cents = sumInCents({ usage, discounts, corrections });
    const given = `${usage} - ${discounts} + ${corrections}`;
    assert.equal(cents.usage - cents.discounts + cents.corrections, cents.total, given);
    assert.ok(cents.discounts >= 0 && cents.discounts <= cents.usage, given);
    assert.ok(Math.abs(cents.discounts * 10_000 - Number(discounts)) <= 10_000, given);
    assert.ok(Math.abs(cents.corrections * 10_000 - Number(corrections)) <= 10_000, given);
    if (discounts === 0n) assert.equal(cents.discounts, 0, given);
    if (corrections === 0n) assert.equal(cents.corrections, 0, given);
  }
});
