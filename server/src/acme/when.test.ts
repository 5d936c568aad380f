// When certificates are requested, and when the operator is warned.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isToWarn, nextTryMs, renewalMs } from "./when.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const life = { beginsAtMs: 0, endsAtMs: 90 * dayMs };

test("a certificate is renewed when a third of its life is left, or a little earlier", () => {
  assert.equal(renewalMs(life, 0), 60 * dayMs);
  assert.equal(renewalMs(life, 1), 57 * dayMs);
  assert.equal(renewalMs({ beginsAtMs: 0, endsAtMs: 6 * dayMs }, 0), 4 * dayMs);
});

test("failed tries are repeated less and less often, and never before the authority allows", () => {
  const waits = [1, 2, 3, 4, 5, 6, 50].map((failures) =>
    nextTryMs({ failures, isRateLimited: false, retryAfterMs: 0 }, 0.5),
  );
  assert.deepEqual(
    waits.map((ms) => ms / 60_000),
    [5, 15, 45, 135, 360, 360, 360],
  );
  const first = { failures: 1, isRateLimited: true };
  assert.equal(nextTryMs({ ...first, retryAfterMs: 30 * hourMs }, 0.5), 30 * hourMs);
  assert.equal(nextTryMs({ ...first, retryAfterMs: 0 }, 0.5), hourMs);
  assert.equal(nextTryMs({ ...first, retryAfterMs: 999 * dayMs }, 0.5), 7 * dayMs);
});

test("the operator is warned once a day, from three weeks before the end of what is not renewed", () => {
  const failing = { ...life, failures: 1, warnedAtMs: null };
  assert.equal(isToWarn(failing, 68 * dayMs), false);
  assert.equal(isToWarn(failing, 70 * dayMs), true);
  assert.equal(isToWarn({ ...failing, failures: 0 }, 70 * dayMs), false);
  const warned = { ...failing, warnedAtMs: 70 * dayMs };
  assert.equal(isToWarn(warned, 70.9 * dayMs), false);
  assert.equal(isToWarn(warned, 71 * dayMs), true);
  const short = { ...failing, endsAtMs: 8 * dayMs };
  assert.equal(isToWarn(short, 5.9 * dayMs), false);
  assert.equal(isToWarn(short, 6.1 * dayMs), true);
});
