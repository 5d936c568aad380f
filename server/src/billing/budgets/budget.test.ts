// What becomes of a budget as money is spent.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { judgeBudget, type BudgetState, type BudgetTerms } from "./budget.ts";

const terms: BudgetTerms = { amountMicros: 10_000_000n, warnPercent: [50, 80, 100], isStop: true };
const fresh: BudgetState = { period: "2026-11", warnedPercent: 0, isStopped: false };
const at = (spentMicros: bigint, period = "2026-11") => ({ period, spentMicros });

test("each percentage is warned of once, at the micro-unit that reaches it, and of several at once only the highest", () => {
  assert.equal(judgeBudget(terms, fresh, at(4_999_999n)).warning, null);
  const half = judgeBudget(terms, fresh, at(5_000_000n));
  assert.deepEqual([half.warning, half.turn], [50, null]);
  assert.equal(judgeBudget(terms, half.state, at(7_999_999n)).warning, null);
  const end = judgeBudget(terms, half.state, at(10_000_000n));
  assert.deepEqual([end.warning, end.turn, end.state.isStopped], [100, "stop", true]);
  assert.deepEqual(judgeBudget(terms, end.state, at(11_000_000n)), {
    state: end.state,
    warning: null,
    turn: null,
  });
});

test("a budget that does not stop only warns", () => {
  const { turn, state } = judgeBudget({ ...terms, isStop: false }, fresh, at(50_000_000n));
  assert.deepEqual([turn, state.isStopped], [null, false]);
});

test("a new month, a higher amount and an end of stopping let it go on, once", () => {
  const stopped: BudgetState = { ...fresh, warnedPercent: 100, isStopped: true };
  const next = judgeBudget(terms, stopped, at(0n, "2026-12"));
  assert.deepEqual(next, {
    state: { period: "2026-12", warnedPercent: 0, isStopped: false },
    warning: null,
    turn: "resume",
  });
  assert.equal(judgeBudget(terms, next.state, at(0n, "2026-12")).turn, null);
  assert.equal(
    judgeBudget({ ...terms, amountMicros: 20_000_000n }, stopped, at(10_000_000n)).turn,
    "resume",
  );
  assert.equal(judgeBudget({ ...terms, isStop: false }, stopped, at(10_000_000n)).turn, "resume");
});

test("a month that begins above the amount is a new stop", () => {
  const stopped: BudgetState = { ...fresh, warnedPercent: 100, isStopped: true };
  assert.equal(judgeBudget(terms, stopped, at(12_000_000n, "2026-12")).turn, "stop");
});

test("in whatever steps the same sum is reached, what is warned of and stopped in the end is the same", () => {
  const sums = fc.array(fc.bigInt(0n, 20_000_000n), { minLength: 1 });
  fc.assert(
    fc.property(sums, (spent) => {
      const rising = spent.toSorted((one, other) => Number(one - other));
      let state = fresh;
      let stops = 0;
      const warnings: number[] = [];
      for (const sum of rising) {
        const step = judgeBudget(terms, state, at(sum));
        if (step.turn !== null) stops += step.turn === "stop" ? 1 : 100;
        if (step.warning !== null) warnings.push(step.warning);
        state = step.state;
      }
      assert.deepEqual(state, judgeBudget(terms, fresh, at(rising.at(-1) ?? 0n)).state);
      assert.equal(stops, state.isStopped ? 1 : 0);
      assert.deepEqual(
        warnings,
        [...new Set(warnings)].toSorted((one, other) => one - other),
      );
    }),
  );
});
