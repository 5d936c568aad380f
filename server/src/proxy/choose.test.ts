// The four ways to choose a replica, held to a model: a reservation for each call, given back once.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  loadBalancingAlgorithms,
  type LoadBalancingAlgorithm,
} from "@slipway/contract/app-choices.ts";
import { choose, type Candidate } from "./choose.ts";

type MutableCandidate = { running: number; readonly concurrency: number };

function candidates(...running: number[]): MutableCandidate[] {
  return running.map((count) => ({ running: count, concurrency: 2 }));
}

function pick(
  algorithm: LoadBalancingAlgorithm,
  list: readonly Candidate[],
  next = 0,
): { index: number; next: number } {
  const turn = { next };
  return { index: choose(algorithm, list, turn, () => 0), next: turn.next };
}

/** Numbers in [0, 1) that only depend on the seed. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test("round-robin goes on behind the last one and passes full ones over", () => {
  assert.deepEqual(pick("round-robin", candidates(0, 0, 0), 1), { index: 1, next: 2 });
  assert.deepEqual(pick("round-robin", candidates(0, 2, 2), 1), { index: 0, next: 1 });
  assert.deepEqual(pick("round-robin", candidates(0, 0), 7), { index: 0, next: 1 });
  assert.equal(pick("round-robin", candidates(2, 2, 2), 2).index, -1);
});

test("first-available fills the first one before it looks at the next", () => {
  assert.equal(pick("first-available", candidates(1, 0, 0)).index, 0);
  assert.equal(pick("first-available", candidates(2, 1, 0)).index, 1);
  assert.equal(pick("first-available", candidates(2, 2)).index, -1);
});

test("min-connections takes the one with the fewest calls that has room", () => {
  assert.equal(pick("min-connections", candidates(1, 0, 1)).index, 1);
  assert.equal(
    pick("min-connections", [
      { running: 1, concurrency: 1 },
      { running: 5, concurrency: 9 },
    ]).index,
    1,
  );
  assert.equal(pick("min-connections", candidates(2, 2)).index, -1);
});

test("random-choice-2 compares two different replicas and knows no limit of the app's own", () => {
  assert.equal(pick("random-choice-2", candidates(9, 3)).index, 1);
  assert.equal(pick("random-choice-2", candidates(3, 9)).index, 0);
  assert.equal(pick("random-choice-2", candidates(50)).index, 0);
  assert.equal(pick("random-choice-2", candidates(10_000)).index, -1);
});

test("none is chosen where there is none", () => {
  for (const algorithm of loadBalancingAlgorithms) assert.equal(pick(algorithm, []).index, -1);
});

const commands = fc.array(
  fc.oneof({ weight: 3, arbitrary: fc.constant(-1) }, { weight: 2, arbitrary: fc.nat() }),
  {
    maxLength: 200,
  },
);
const limits = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 6 });

test("a replica never gets more calls than it may have, and none is refused while one has room", () => {
  const algorithms = loadBalancingAlgorithms.filter((name) => name !== "random-choice-2");
  fc.assert(
    fc.property(
      fc.constantFrom(...algorithms),
      limits,
      commands,
      fc.nat(),
      (algorithm, concurrency, steps, seed) => {
        const list: MutableCandidate[] = concurrency.map((max) => ({
          running: 0,
          concurrency: max,
        }));
        const held: number[] = [];
        const turn = { next: 0 };
        const random = seeded(seed);
        for (const step of steps) {
          if (step >= 0) {
            const [index] = held.splice(step % Math.max(1, held.length), 1);
            const candidate = index === undefined ? undefined : list[index];
            if (candidate !== undefined) candidate.running--;
            continue;
          }
          const hadFreeSlot = list.some((candidate) => candidate.running < candidate.concurrency);
          const index = choose(algorithm, list, turn, random);
          assert.equal(index !== -1, hadFreeSlot);
          const candidate = list[index];
          if (candidate === undefined) continue;
          assert.ok(candidate.running < candidate.concurrency, `${algorithm} chose a full replica`);
          candidate.running++;
          held.push(index);
        }
      },
    ),
  );
});

test("round-robin spreads calls evenly where all have room", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 300 }),
      (count, calls) => {
        const list = Array.from({ length: count }, () => ({ running: 0, concurrency: 1000 }));
        const turn = { next: 0 };
        for (let call = 0; call < calls; call++) {
          const candidate = list[choose("round-robin", list, turn, () => 0)];
          if (candidate !== undefined) candidate.running++;
        }
        const loads = list.map((candidate) => candidate.running);
        assert.ok(Math.max(...loads) - Math.min(...loads) <= 1);
      },
    ),
  );
});

test("the better of two is far closer to even than one at random", () => {
  const count = 50;
  const calls = 5_000;
  const random = seeded(42);
  const list = Array.from({ length: count }, () => ({ running: 0, concurrency: 1 }));
  const blind = Array.from({ length: count }, () => 0);
  for (let call = 0; call < calls; call++) {
    const candidate = list[choose("random-choice-2", list, { next: 0 }, random)];
    if (candidate !== undefined) candidate.running++;
    const index = Math.floor(random() * count);
    blind[index] = (blind[index] ?? 0) + 1;
  }
  const mean = calls / count;
  const excess = Math.max(...list.map((candidate) => candidate.running)) - mean;
  assert.ok(
    excess < (Math.max(...blind) - mean) / 3,
    `the fullest has ${excess} more than the mean`,
  );
});
