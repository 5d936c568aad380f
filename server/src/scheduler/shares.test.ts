// How an app's calls are divided between releases, and how many replicas each should have.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { countWhileMoving, divide, type Party } from "./shares.ts";

function divided(
  ...parties: readonly (readonly [target: number, needed: number, ready: number])[]
): string[] {
  const made = divide(parties.map(([target, needed, ready]) => ({ target, needed, ready })));
  return made.map(({ weight, wanted }) => `${Math.round(weight * 100)} % on ${wanted}`);
}

test("an app with one release gives it everything", () => {
  assert.deepEqual(divided([1, 3, 0]), ["100 % on 3"]);
  assert.deepEqual(divided([1, 3, 2]), ["100 % on 3"]);
  assert.deepEqual(divided([1, 0, 2]), ["100 % on 0"]);
});

test("a release gets its share as its replicas become ready, and the other one keeps the rest", () => {
  assert.deepEqual(divided([0.8, 10, 10], [0.2, 10, 0]), ["100 % on 10", "0 % on 2"]);
  assert.deepEqual(divided([0.6, 10, 8], [0.4, 10, 2]), ["80 % on 8", "20 % on 4"]);
  assert.deepEqual(divided([0.6, 10, 7], [0.4, 10, 3]), ["70 % on 7", "30 % on 4"]);
  assert.deepEqual(divided([0.6, 10, 6], [0.4, 10, 4]), ["60 % on 6", "40 % on 4"]);
});

test("a switch ends replicas of the release before as those of the new one become ready", () => {
  assert.deepEqual(divided([1, 10, 1], [0, 10, 10]), ["10 % on 10", "90 % on 9"]);
  assert.deepEqual(divided([1, 10, 9], [0, 10, 3]), ["90 % on 10", "10 % on 1"]);
  assert.deepEqual(divided([1, 10, 10], [0, 10, 1]), ["100 % on 10", "0 % on 0"]);
  assert.deepEqual(divided([1, 1, 0], [0, 1, 1]), ["0 % on 1", "100 % on 1"]);
});

test("a release without replicas leaves its calls to the other one", () => {
  assert.deepEqual(divided([0.8, 2, 0], [0.2, 2, 1]), ["0 % on 2", "100 % on 2"]);
  assert.deepEqual(divided([0.8, 2, 0], [0.2, 2, 0]), ["80 % on 2", "20 % on 1"]);
});

test("weights sum to one, go to ready replicas, and no release that is to get calls has fewer replicas than its share", () => {
  const party = fc.record({ needed: fc.nat(12), ready: fc.nat(12) });
  const any = fc.record({
    share: fc.integer({ min: 0, max: 5 }),
    live: party,
    next: party,
    leaving: fc.nat(5),
  });
  fc.assert(
    fc.property(any, ({ share, live, next, leaving }) => {
      const part = share / 5;
      const parties: Party[] = [
        { ...live, target: 1 - part },
        { ...next, target: part },
        { target: 0, needed: live.needed, ready: leaving },
      ];
      const made = divide(parties);
      const weights = made.reduce((sum, { weight }) => sum + weight, 0);
      assert.ok(Math.abs(weights - 1) < 1e-9, `${weights}`);
      const isAnyReady = parties.some(({ ready }) => ready > 0);
      for (const [index, { weight, wanted }] of made.entries()) {
        const { target, needed, ready } = parties[index] as Party;
        assert.ok(weight >= 0 && wanted >= Math.ceil(needed * target - 1e-6));
        assert.ok(
          !isAnyReady || ready > 0 || weight === 0,
          "calls go to a release without replicas",
        );
        assert.ok(wanted <= Math.max(needed, 0) + 1);
      }
    }),
  );
});

test("two releases with the same need stay within the maximum and a quarter at every share", () => {
  for (let max = 1; max <= 40; max++) {
    for (let share = 20; share <= 80; share += 20) {
      for (let ready = 0; ready <= Math.ceil((max * share) / 100); ready++) {
        const [live, next] = divide([
          { target: 1 - share / 100, needed: max, ready: max },
          { target: share / 100, needed: max, ready },
        ]);
        assert.ok(live !== undefined && next !== undefined);
        // What gives its calls up goes as its successors become ready.
        assert.ok(
          live.wanted + ready <= Math.max(countWhileMoving(max), max + 1),
          `${max} at ${share} % with ${ready}`,
        );
        assert.ok(
          ready < next.wanted || live.wanted + next.wanted <= max + 1,
          `${max} at ${share} %`,
        );
      }
    }
  }
});
