// The limit of deployments per minute, with a clock that the test moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { RateLimit } from "./rate-limit.ts";

const still: Clock = {
  now: () => 0,
  monotonicMs: () => 0,
  isSettled: () => true,
  random: () => 0.5,
  sleep: () => Promise.reject(new Error("nobody waits here")),
  after: () => () => undefined,
};

test("within any minute no more than the limit pass, by key, and the refusal says how long to wait", () => {
  let now = 1_000_000;
  const clock: Clock = { ...still, now: () => now, monotonicMs: () => now };
  const limit = new RateLimit({ most: 3, clock });
  const refusal = (): Fault => {
    try {
      limit.take("p");
    } catch (error) {
      assert.ok(error instanceof Fault);
      return error;
    }
    assert.fail("was not refused");
  };
  for (let use = 0; use < 3; use++) {
    limit.take("p");
    now += 10_000;
  }
  assert.equal(refusal().retryAfterSeconds, 30);
  limit.take("another");
  now += 29_999;
  assert.equal(refusal().retryAfterSeconds, 1);
  now += 1;
  limit.take("p");
  assert.equal(refusal().retryAfterSeconds, 10, "the next one leaves the window ten seconds later");
});

test("however many keys come within a minute, few are remembered", () => {
  const limit = new RateLimit({ most: 1, clock: still });
  for (let key = 0; key < 30_000; key++) limit.take(`2001:db8::${key}`);
  assert.equal(limit.size, 10_000);
  assert.equal(limit.tryTake("2001:db8::29999"), false, "the last ones are");
});
