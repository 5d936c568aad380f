// When a delivery is tried again, for each schedule, answer and Retry-After.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { retryAfterMs } from "#lib/retry-after.ts";
import {
  isTrouble,
  judgeAttempt,
  type AttemptEnd,
  type ScheduleName,
  type AttemptVerdict,
} from "./schedule.ts";

const hourMs = 3_600_000;
const nowMs = Date.UTC(2026, 0, 1);

function answered(status: number, retryAfter: string | null = null): AttemptEnd {
  return { kind: "answered", status, retryAfter };
}

const refused: AttemptEnd = { kind: "failed", reason: "The connection was refused." };

function judgeWith(
  schedule: ScheduleName,
  end: AttemptEnd,
  attempt = 1,
  random = 0.5,
): AttemptVerdict {
  return judgeAttempt({ schedule, end, attempt, nowMs, random });
}

/** The waits until the last attempt, when all of them end so. */
function waitsOf(schedule: ScheduleName, end: AttemptEnd, random = 0.5): number[] {
  const waits: number[] = [];
  for (let attempt = 1; ; attempt++) {
    const verdict = judgeWith(schedule, end, attempt, random);
    if (verdict.kind !== "retry") return waits;
    waits.push(verdict.waitMs);
  }
}

describe("the standard schedule", () => {
  test("is 10 attempts over about 75 hours, with growing waits", () => {
    const waits = waitsOf("standard", refused);
    assert.equal(waits.length + 1, 10);
    const totalHours = waits.reduce((sum, ms) => sum + ms, 0) / hourMs;
    assert.ok(totalHours > 74 && totalHours < 77, `${totalHours} hours`);
    assert.deepEqual(
      waits,
      waits.toSorted((a, b) => a - b),
    );
  });

  test("spreads each wait by a fifth to both sides", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.integer({ min: 1, max: 9 }),
        (random, attempt) => {
          const plain = judgeWith("standard", refused, attempt);
          const spread = judgeWith("standard", refused, attempt, random);
          assert.ok(plain.kind === "retry" && spread.kind === "retry");
          assert.ok(Math.abs(spread.waitMs / plain.waitMs - 1) <= 0.2001);
        },
      ),
    );
    assert.notDeepEqual(waitsOf("standard", refused, 0), waitsOf("standard", refused, 0.99));
  });

  test("tries again after errors, 404, 408, 409, 425, 429, 5xx and redirects, and after no other 4xx", () => {
    const again = [301, 302, 307, 304, 404, 408, 409, 425, 429, 500, 502, 503, 504, 599];
    const never = [400, 401, 403, 405, 410, 411, 413, 415, 422, 451, 499];
    for (const status of again)
      assert.equal(judgeWith("standard", answered(status)).kind, "retry", `${status}`);
    for (const status of never)
      assert.equal(judgeWith("standard", answered(status)).kind, "failed", `${status}`);
    for (const status of [200, 201, 202, 204, 299]) {
      assert.equal(judgeWith("standard", answered(status)).kind, "delivered", `${status}`);
    }
    assert.equal(judgeWith("standard", refused).kind, "retry");
  });
});

describe("the short schedule", () => {
  test("is 3 attempts, at most 5 seconds apart, whatever is asked for", () => {
    for (const random of [0, 0.5, 0.999_999]) {
      const waits = waitsOf("short", answered(404, "3600"), random);
      assert.equal(waits.length + 1, 3);
      assert.ok(
        waits.every((ms) => ms > 0 && ms <= 5000),
        waits.join(" "),
      );
    }
    assert.ok(waitsOf("short", refused, 0.999_999).every((ms) => ms <= 5000));
  });

  test("tries again after errors, 404 and what is neither 4xx nor 5xx, and after nothing else", () => {
    for (const status of [301, 304, 404])
      assert.equal(judgeWith("short", answered(status)).kind, "retry", `${status}`);
    for (const status of [400, 408, 409, 410, 425, 429, 500, 502, 503, 504]) {
      assert.equal(judgeWith("short", answered(status)).kind, "failed", `${status}`);
    }
    assert.equal(judgeWith("short", refused).kind, "retry");
  });
});

describe("Retry-After", () => {
  test("is waited for at least, in seconds or as a date, but for no longer than a day", () => {
    const waitAfter = (value: string, attempt = 1): number => {
      const verdict = judgeWith("standard", answered(503, value), attempt);
      assert.ok(verdict.kind === "retry");
      return verdict.waitMs;
    };
    assert.equal(waitAfter("120"), 120_000);
    assert.equal(waitAfter("Thu, 01 Jan 2026 00:10:00 GMT"), 600_000);
    assert.equal(waitAfter("999999999"), 24 * hourMs);
    // Later waits are longer than what is asked for.
    assert.equal(waitAfter("120", 4), 2 * hourMs);
    assert.equal(waitAfter("0"), 5000);
  });

  test("that cannot be read, or lies in the past, asks for nothing", () => {
    for (const odd of [
      "",
      "soon",
      "-5",
      "1.5",
      "1e9",
      "12345678901",
      "Wed, 31 Dec 2025 00:00:00 GMT",
      "Foo, bar",
      "\0",
    ]) {
      assert.equal(retryAfterMs(odd, nowMs), 0, odd);
    }
    assert.equal(retryAfterMs(null, nowMs), 0);
  });

  test("never makes the schedule throw or wait for what is no number", () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.integer({ min: 100, max: 999 }),
        fc.integer({ min: 1, max: 12 }),
        (value, status, attempt) => {
          const verdict = judgeWith("standard", answered(status, value), attempt);
          if (verdict.kind === "retry")
            assert.ok(verdict.waitMs > 0 && verdict.waitMs <= 30 * hourMs);
        },
      ),
    );
  });
});

test("a delivery that ends says why, and how many attempts there were", () => {
  const last = judgeWith("standard", answered(503), 10);
  assert.ok(
    last.kind === "failed" && last.reason.includes("503") && last.reason.includes("attempt 10"),
  );
  const gone = judgeWith("standard", answered(410));
  assert.ok(gone.kind === "failed" && gone.reason.includes("410"));
});

test("only what may be overload or absence makes a receiver get less at a time", () => {
  assert.deepEqual(
    [200, 301, 400, 404, 410].filter((status) => isTrouble(answered(status))),
    [],
  );
  assert.ok([429, 500, 503].every((status) => isTrouble(answered(status))));
  assert.ok(isTrouble(refused));
});
