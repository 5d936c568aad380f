// When a batch is sent again, for each answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { OutwardAnswer } from "#lib/outward-request.ts";
import { anyText } from "#test/support/any-text.ts";
import { judgeBatch, type BatchVerdict, type JudgedBatch } from "./forwarding-schedule.ts";

const dayMs = 86_400_000;
const nowMs = Date.UTC(2026, 0, 10);

const answered = (status: number, retryAfter: string | null = null): OutwardAnswer => ({
  kind: "answered",
  status,
  retryAfter,
  firstBytes: Buffer.alloc(0),
  durationMs: 1,
});
const after = (answer: OutwardAnswer, changes: Partial<JudgedBatch> = {}): BatchVerdict =>
  judgeBatch({
    answer,
    failures: 0,
    failingSinceMs: null,
    isPausable: true,
    nowMs,
    random: 0.5,
    ...changes,
  });

test("every 2xx is taken; everything else is sent again, later and later up to 15 minutes", () => {
  for (const status of [200, 201, 202, 204, 299])
    assert.deepEqual(after(answered(status)), { kind: "taken" });
  for (const status of [301, 400, 401, 404, 429, 500, 503]) {
    const verdict = after(answered(status));
    assert.equal(verdict.kind, "again");
    assert.match(verdict.reason, new RegExp(`answered ${status}`));
  }
  const waits = [0, 1, 2, 3, 9, 10, 50].map((failures) => {
    const verdict = after(answered(500), { failures, failingSinceMs: nowMs - 1 });
    return verdict.kind === "again" ? verdict.waitMs : null;
  });
  assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 512_000, 900_000, 900_000]);
});

test("a receiver may ask for up to an hour", () => {
  for (const [asked, waitMs] of [
    ["0", 1_000],
    ["120", 120_000],
    ["999999", 3_600_000],
    ["soon", 1_000],
  ] as const) {
    const verdict = after(answered(503, asked));
    assert.equal(verdict.kind === "again" && verdict.waitMs, waitMs, asked);
  }
});

test("what fails for four days, or is wanted no more, is held back with the reason", () => {
  const failed: OutwardAnswer = {
    kind: "failed",
    reason: "its name has no address",
    durationMs: 1,
  };
  assert.equal(
    after(failed, { failures: 300, failingSinceMs: nowMs - 4 * dayMs + 1 }).kind,
    "again",
  );
  const verdict = after(failed, { failures: 400, failingSinceMs: nowMs - 4 * dayMs });
  assert.deepEqual(verdict, {
    kind: "pause",
    reason:
      "It failed for 4 days. The receiver cannot be reached: its name has no address. Set the forwarding again to resume.",
  });
  assert.equal(after(answered(410)).kind, "pause");
  assert.equal(
    after(answered(200), { failures: 400, failingSinceMs: nowMs - 9 * dayMs }).kind,
    "taken",
  );
});

test("the operator's receiver is never given up on", () => {
  const long = { failures: 400, failingSinceMs: nowMs - 9 * dayMs, isPausable: false };
  for (const answer of [answered(500), answered(410)]) {
    const verdict = after(answer, long);
    assert.equal(verdict.kind === "again" && verdict.waitMs, 900_000);
  }
});

test("no answer makes it throw or wait for what is no number", () => {
  const answer = fc.oneof(
    fc
      .tuple(fc.integer({ min: 100, max: 999 }), fc.option(fc.string()))
      .map(([status, text]) => answered(status, text)),
    anyText().map((reason) => ({ kind: "failed" as const, reason, durationMs: 1 })),
  );
  fc.assert(
    fc.property(
      answer,
      fc.nat(),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (given, failures, random) => {
        const verdict = after(given, { failures, random, failingSinceMs: nowMs - 1 });
        if (verdict.kind !== "again") return;
        assert.ok(verdict.waitMs >= 800 && verdict.waitMs <= 3_600_000, String(verdict.waitMs));
        assert.ok(verdict.reason.isWellFormed() && !verdict.reason.includes("\0"));
      },
    ),
  );
});
