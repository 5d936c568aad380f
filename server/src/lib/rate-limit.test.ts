// The limit of uses within a minute, with a clock that the test moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Fault } from "./fault.ts";
import { RateLimit } from "./rate-limit.ts";

test("within a minute from the first use no more than the limit pass, by key, and the refusal says how long to wait", async () => {
  const clock = new VirtualClock();
  const limit = new RateLimit({
    max: 3,
    clock,
    text: (used, seconds) => `${used} uses, ${seconds} s`,
  });
  for (let use = 0; use < 3; use++) {
    assert.equal(limit.refusal("p"), null);
    limit.take("p");
    await clock.advance(10_000);
  }
  const refused = {
    name: "Fault",
    code: "rate_limited",
    retryAfterSeconds: 30,
    message: "3 uses, 30 s",
  };
  assert.throws(() => limit.take("p"), refused);
  limit.take("another");
  await clock.advance(29_999);
  assert.throws(() => limit.take("p"), { retryAfterSeconds: 1 });
  assert.ok(limit.refusal("p") instanceof Fault);
  await clock.advance(1);
  assert.equal(limit.refusal("p"), null, "what was refused was not counted");
  for (let use = 0; use < 3; use++) limit.take("p");
  assert.throws(() => limit.take("p"), { retryAfterSeconds: 60 });
});

test("however many keys come within a minute, few are remembered", () => {
  const limit = new RateLimit({ max: 1, clock: new VirtualClock() });
  for (let key = 0; key < 30_000; key++) limit.take(`2001:db8::${key}`);
  for (let key = 29_999; key >= 20_000; key--)
    assert.equal(limit.tryTake(`2001:db8::${key}`), false, "the last ones are");
  assert.equal(limit.tryTake("2001:db8::19999"), true, "it is forgotten");
});

test("a window may be of another length", async () => {
  const clock = new VirtualClock();
  const limit = new RateLimit({ max: 1, windowMs: 200, clock });
  assert.deepEqual([limit.tryTake("a"), limit.tryTake("a")], [true, false]);
  await clock.advance(199);
  assert.equal(limit.tryTake("a"), false);
  await clock.advance(1);
  assert.equal(limit.tryTake("a"), true);
});
