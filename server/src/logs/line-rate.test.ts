// How fast the lines of one app are taken, and that no other app waits for it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { LineRate } from "./line-rate.ts";

const limits = {
  linesAtOnce: 100,
  linesPerSecond: 10,
  charactersAtOnce: 1000,
  charactersPerSecond: 200,
};
const loud = "p-1-loud" as AppId;
const quiet = "p-1-quiet" as AppId;

test("what an app prints at once is taken at once, what is more waits for its second", async () => {
  const clock = new VirtualClock();
  const pace = new LineRate({ limits, clock });
  assert.equal(pace.waitMs(loud, 100, 10), 0);
  pace.take(loud, 100, 10);
  assert.equal(pace.waitMs(loud, 20, 10), 2000);
  pace.take(loud, 20, 10);
  await clock.advance(2000);
  assert.equal(pace.waitMs(loud, 10, 0), 1000);
  await clock.advance(3600_000);
  assert.equal(pace.waitMs(loud, 100, 1000), 0);
});

test("long lines wait for their characters", () => {
  const pace = new LineRate({ limits, clock: new VirtualClock() });
  pace.take(loud, 1, 1000);
  assert.equal(pace.waitMs(loud, 1, 100), 500);
});

test("an app that prints without end makes no other wait", () => {
  const pace = new LineRate({ limits, clock: new VirtualClock() });
  for (let count = 0; count < 100; count++) pace.take(loud, 1000, 1000);
  assert.equal(pace.waitMs(quiet, 100, 1000), 0);
});
