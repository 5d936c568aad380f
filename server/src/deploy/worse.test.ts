// When a new release is clearly worse than the one before: by its failed calls, its starts and its
// readiness.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Seeded } from "#test/support/seeded.ts";
import {
  compared,
  newComparison,
  worseBecause,
  type Comparison,
  type ReleaseCondition,
} from "./worse.ts";

const calm: ReleaseCondition = {
  calls: 0,
  failures: 0,
  failedSeconds: 0,
  serving: 1,
  unready: 0,
  failedStarts: 0,
  startReason: null,
};

type Rates = { readonly next: number; readonly old: number };

/**
 * Plays calls second by second; `rates`: of failures, in each second. Resolves with the first
 * verdict, or null.
 */
function play(given: {
  readonly seed: number;
  readonly seconds: number;
  readonly callsPerSecond: number;
  readonly shares: readonly number[];
  readonly rates: (second: number) => Rates;
}): { readonly reason: string; readonly second: number } | null {
  const { seed, seconds, callsPerSecond, shares } = given;
  const seeded = new Seeded(seed);
  let next = calm;
  let old = calm;
  let comparison: Comparison | undefined;
  for (let second = 0; second < seconds; second++) {
    const weight = shares[Math.floor((second * shares.length) / seconds)] ?? 1;
    comparison ??= newComparison({ next, old, weight });
    const rates = given.rates(second);
    for (let call = 0; call < callsPerSecond; call++) {
      const isNext = seeded.chance(weight);
      const failed = seeded.chance(isNext ? rates.next : rates.old) ? 1 : 0;
      if (isNext) next = { ...next, calls: next.calls + 1, failures: next.failures + failed };
      else old = { ...old, calls: old.calls + 1, failures: old.failures + failed };
    }
    if (next.failures > comparison.latest.next.failures)
      next = { ...next, failedSeconds: next.failedSeconds + 1 };
    comparison = compared(comparison, { next, old, weight }, second * 1000);
    const reason = worseBecause(comparison, second * 1000);
    if (reason !== null) return { reason, second };
  }
  return null;
}

const steps = [0.2, 0.4, 0.6, 0.8, 1];

test("a release that fails all calls is found after a few of them, also where there are few", () => {
  let inTime = 0;
  for (let seed = 1; seed <= 50; seed++) {
    const quick = play({
      seed,
      seconds: 60,
      callsPerSecond: 20,
      shares: [0.2],
      rates: () => ({ next: 1, old: 0 }),
    });
    assert.ok(quick !== null && quick.second <= 6, `${quick?.second}`);
    const slow = play({
      seed,
      seconds: 60,
      callsPerSecond: 1,
      shares: steps,
      rates: () => ({ next: 1, old: 0 }),
    });
    if (slow !== null && slow.second < 48) inTime++;
  }
  // With one call a second the few draws may miss the new release.
  assert.ok(inTime >= 45, `${inTime}`);
});

test("a release that fails a tenth of its calls where the other fails none is found", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const found = play({
      seed,
      seconds: 300,
      callsPerSecond: 10,
      shares: steps,
      rates: () => ({ next: 0.1, old: 0 }),
    });
    assert.match(
      found?.reason ?? "none",
      /^\d+ of its \d+ calls failed, but only 0 of \d+ of the release before\.$/,
    );
  }
});

test("releases that fail equally often are not told apart, however often they are looked at", () => {
  const rate = fc.double({ min: 0, max: 1, noNaN: true });
  const any = fc.record({ seed: fc.nat(), rate, callsPerSecond: fc.integer({ min: 1, max: 30 }) });
  fc.assert(
    fc.property(any, ({ seed, rate: one, callsPerSecond }) => {
      const rates = (): Rates => ({ next: one, old: one });
      assert.equal(play({ seed, seconds: 400, callsPerSecond, shares: steps, rates }), null);
    }),
    { numRuns: 150 },
  );
});

test("a new release that fails less is never worse", () => {
  const any = fc.record({ seed: fc.nat(), rate: fc.double({ min: 0.1, max: 1, noNaN: true }) });
  fc.assert(
    fc.property(any, ({ seed, rate }) => {
      const rates = (): Rates => ({ next: rate * 0.7, old: rate });
      assert.equal(play({ seed, seconds: 200, callsPerSecond: 10, shares: steps, rates }), null);
    }),
    { numRuns: 100 },
  );
});

test("an outage that strikes both says nothing, also when it strikes while the new one has most calls", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const rates = (second: number): Rates =>
      second >= 180 && second < 240 ? { next: 1, old: 1 } : { next: 0, old: 0 };
    assert.equal(play({ seed, seconds: 300, callsPerSecond: 10, shares: steps, rates }), null);
  }
});

test("one crash with many calls says nothing, and neither do a few failures of a few calls", () => {
  const rates = (second: number): Rates =>
    second === 30 ? { next: 1, old: 0 } : { next: 0, old: 0 };
  assert.equal(play({ seed: 1, seconds: 200, callsPerSecond: 100, shares: steps, rates }), null);
  const start = newComparison({ next: calm, old: calm, weight: 0.2 });
  const few = { ...calm, calls: 4, failures: 4, failedSeconds: 4 };
  const after = compared(start, { next: few, old: { ...calm, calls: 16 }, weight: 0.2 }, 0);
  assert.equal(worseBecause(after, 0), null);
});

test("a difference that is certain and small is not clear", () => {
  const start = newComparison({ next: calm, old: calm, weight: 0.5 });
  const seen = (failures: number): string | null => {
    const next = { ...calm, calls: 100_000, failures, failedSeconds: 900 };
    const old = { ...calm, calls: 100_000, failures: 100, failedSeconds: 90 };
    return worseBecause(compared(start, { next, old, weight: 0.5 }, 0), 0);
  };
  assert.equal(seen(1900), null);
  assert.notEqual(seen(2200), null);
});

test("starts that fail in a row make it worse, unless those of the other fail too", () => {
  const failing = { ...calm, serving: 0, failedStarts: 3, startReason: "It exited with code 1." };
  const start = newComparison({ next: calm, old: calm, weight: 0.2 });
  const alone = compared(start, { next: failing, old: calm, weight: 0 }, 0);
  assert.equal(worseBecause(alone, 0), "3 of its starts failed in a row: It exited with code 1.");
  assert.equal(
    worseBecause(compared(start, { next: failing, old: failing, weight: 0 }, 0), 0),
    null,
  );
  const twice = { ...failing, failedStarts: 2 };
  assert.equal(worseBecause(compared(start, { next: twice, old: calm, weight: 0 }, 0), 0), null);
});

test("replicas that run and take no calls for half a minute make it worse, unless nothing serves", () => {
  const unready = { ...calm, serving: 0, unready: 2 };
  let seen = compared(
    newComparison({ next: calm, old: calm, weight: 0.2 }),
    { next: unready, old: calm, weight: 0 },
    0,
  );
  seen = compared(seen, { next: unready, old: calm, weight: 0 }, 29_000);
  assert.equal(worseBecause(seen, 29_000), null);
  assert.match(worseBecause(seen, 30_000) ?? "", /^None of its replicas has been ready/);
  const both = compared(seen, { next: unready, old: { ...calm, serving: 0 }, weight: 0 }, 30_000);
  assert.equal(worseBecause(both, 30_000), null);
});
