// Slices: of any time, cut at any borders and made in any number of steps, they are the same and
// add up to the exact price.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { builtInPrices, storageRateAt } from "./prices.ts";
import { slicesUpTo, type Slice } from "./slices.ts";
import { cutsOf, stretchOf } from "./stretches.ts";

const hourMs = 3_600_000;
const beginMs = Date.UTC(2026, 0, 31, 20);
const at = fc.integer({ min: 0, max: 12 * hourMs }).map((ms) => beginMs + ms);
const borders = fc.array(at, { maxLength: 5 });
const rate = fc.bigInt({ min: 0n, max: 10n ** 13n });
/** Another price from each hour on. */
const rates = fc.array(rate, { minLength: 13, maxLength: 13 });

type Given = {
  readonly startMs: number;
  readonly ends: readonly number[];
  readonly borders: readonly number[];
  readonly rates: readonly bigint[];
};
const given = fc.record({
  startMs: at,
  ends: fc.array(at, { minLength: 1, maxLength: 8 }),
  borders,
  rates,
});

const rateAtOf =
  ({ rates: prices }: Given) =>
  (ms: number): bigint =>
    prices[Math.floor((ms - beginMs) / hourMs)] ?? 0n;

/**
 * As the meter does: each end is made known after the other, and what is not needed any more is
 * forgotten.
 */
function inSteps(one: Given): Slice[] {
  let slices: Slice[] = [];
  for (const endMs of one.ends) {
    const firstAfter = slices.findIndex(({ beginsAtMs }) => beginsAtMs > endMs);
    const last = (firstAfter === -1 ? slices.length : firstAfter) - 1;
    const known = slices.slice(Math.max(0, last));
    const made = slicesUpTo({ ...one, endMs, known, rateAt: rateAtOf(one), slicesMax: 100 });
    slices = [...slices.slice(0, Math.max(0, last)), ...made];
  }
  return slices;
}

const sum = (slices: readonly Slice[]): bigint =>
  slices.reduce((all, { micros }) => all + micros, 0n);

test("slices made in any steps, back and forth, are those made at once", () => {
  fc.assert(
    fc.property(given, (one) => {
      const endMs = one.ends.at(-1) ?? one.startMs;
      const whole = slicesUpTo({ ...one, endMs, known: [], rateAt: rateAtOf(one), slicesMax: 100 });
      assert.deepEqual(inSteps(one), whole);
    }),
    { numRuns: 500 },
  );
});

test("slices are all of the time, lie within hours and between borders, and cost the exact price rounded once", () => {
  fc.assert(
    fc.property(given, (one) => {
      const endMs = Math.max(one.startMs, one.ends[0] ?? 0);
      const slices = slicesUpTo({
        ...one,
        endMs,
        known: [],
        rateAt: rateAtOf(one),
        slicesMax: 100,
      });
      let nextMs = one.startMs;
      let attos = 0n;
      for (const slice of slices) {
        assert.equal(slice.beginsAtMs, nextMs);
        assert.ok(slice.ms > 0 && slice.micros >= 0n);
        nextMs += slice.ms;
        assert.equal(Math.floor(slice.beginsAtMs / hourMs), Math.floor((nextMs - 1) / hourMs));
        assert.ok(one.borders.every((border) => border <= slice.beginsAtMs || border >= nextMs));
        attos += BigInt(slice.ms) * rateAtOf(one)(slice.beginsAtMs);
      }
      assert.equal(nextMs, endMs);
      assert.equal(sum(slices), (attos + 500_000_000_000n) / 1_000_000_000_000n);
    }),
    { numRuns: 500 },
  );
});

test("stretches that are cut whenever a border becomes known are those of all borders at once", () => {
  const used = fc.array(fc.record({ atMs: at, micros: fc.bigInt({ min: 0n, max: 1_000n }) }), {
    maxLength: 20,
  });
  fc.assert(
    fc.property(used, fc.array(borders, { maxLength: 4 }), (slices, arriving) => {
      const stretches = new Map<number, bigint>();
      let known: number[] = [];
      for (const { atMs, micros } of slices) add(stretches, stretchOf([], atMs), micros);
      for (const some of arriving) {
        known = [...new Set([...known, ...some])].sort((one, other) => one - other);
        for (const { ofMs, atMs, toMs } of cutsOf(known, new Set(stretches.keys()))) {
          const moved = slices.filter((slice) => slice.atMs >= atMs && slice.atMs < toMs);
          const micros = moved.reduce((all, slice) => all + slice.micros, 0n);
          add(stretches, ofMs, -micros);
          add(stretches, atMs, micros);
        }
      }
      const right = new Map<number, bigint>();
      for (const { atMs, micros } of slices) add(right, stretchOf(known, atMs), micros);
      const filled = (all: Map<number, bigint>) =>
        [...all].filter(([, micros]) => micros !== 0n).sort();
      assert.deepEqual(filled(stretches), filled(right));
    }),
    { numRuns: 500 },
  );
});

function add(stretches: Map<number, bigint>, atMs: number, micros: bigint): void {
  stretches.set(atMs, (stretches.get(atMs) ?? 0n) + micros);
}

test("storage of one size costs exactly the price of a month in every month, however the month is cut", () => {
  const gb = fc.bigInt({ min: 0n, max: 10_000_000n });
  const months = fc.record({
    year: fc.integer({ min: 1970, max: 2400 }),
    month: fc.integer({ min: 0, max: 11 }),
  });
  // Whole micro-units for each thousandth of a GB.
  const price = fc.bigInt({ min: 0n, max: 10_000n }).map((micros) => micros * 1_000_000n);
  fc.assert(
    fc.property(
      gb,
      months,
      price,
      fc.bigInt({ min: 0n, max: 200_000n }),
      (size, { year, month }, storageGbMonth, free) => {
        const startMs = Date.UTC(year, month);
        const endMs = Date.UTC(year, month + 1);
        const prices = [{ ...builtInPrices[0], storageGbMonth, storageFree: free }] as const;
        const rateAt = (atMs: number): bigint => storageRateAt(prices, size, atMs);
        const cuts = [startMs + (endMs - startMs) / 3, startMs + (endMs - startMs) / 2 + 1];
        const made = slicesUpTo({
          startMs,
          endMs,
          borders: cuts,
          known: [],
          rateAt,
          slicesMax: 1_000,
        });
        assert.equal(sum(made), size > free ? ((size - free) * storageGbMonth) / 1_000_000n : 0n);
      },
    ),
  );
});
