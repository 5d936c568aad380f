// What `clock_timestamp()` and `lease_clock()` are in statements while clocks step.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { SteadyClock } from "#lib/steady-clock.ts";
import { DatabaseTime } from "#store/database-time.ts";
import { testDatabase } from "#test/support/database.ts";

/** How long a jump lasts before it is adopted. */
const adoptAfterMs = 600_000;
const beganMs = Date.UTC(2026, 0, 1);
const hourMs = 3_600_000;

/**
 * A platform and a database whose clocks are moved; `pass` lets time pass, with a look at the
 * database at the end.
 */
function machines() {
  const state = { monotonicMs: 5_000, ourAheadMs: 0, theirAheadMs: 0 };
  const base = {
    ...systemClock,
    now: () => beganMs + state.monotonicMs + state.ourAheadMs,
    monotonicMs: () => state.monotonicMs,
  };
  const clock = new SteadyClock(base, () => state.monotonicMs);
  const theirs = (): number => beganMs + state.monotonicMs + state.theirAheadMs;
  const time = new DatabaseTime({ clock, log: silentLog, ask: () => Promise.resolve(theirs()) });
  time.saw(theirs(), state.monotonicMs);
  const pass = (ms: number): void => {
    state.monotonicMs += ms;
    clock.now();
    time.saw(theirs(), state.monotonicMs);
  };
  /** How far what statements get is ahead of the time that passed. */
  const ahead = (): { now: number; leases: number } => {
    const { now, leases } = time.read();
    const aheadOf = (text: string): number => Date.parse(text) - beganMs - state.monotonicMs;
    return { now: aheadOf(now), leases: aheadOf(leases) };
  };
  return { state, pass, ahead };
}

test("statements have one time, with microseconds, whatever a transaction waits for", async (t) => {
  const { db } = await testDatabase(t);
  const beganMs = Date.now();
  const { rows } = await sql<{ at: Date; same: boolean; text: string }>`
    select clock_timestamp() as at, clock_timestamp() = lease_clock() as same, clock_timestamp()::text as text,
           ${1}::int as other`.execute(db);
  const row = rows[0];
  assert.ok(row !== undefined);
  assert.ok(row.at.getTime() >= beganMs && row.at.getTime() <= Date.now());
  assert.equal(row.same, true);
  assert.match(row.text, /\d:\d\d(\.\d{1,6})?\+00$/);
});

test("steps of both clocks together, and of the database's alone, change nothing while they last", () => {
  for (const stepMs of [hourMs, 400 * 24 * hourMs, -2 * hourMs]) {
    for (const ours of [stepMs, 0]) {
      const { state, pass, ahead } = machines();
      ahead();
      state.ourAheadMs = ours;
      state.theirAheadMs = stepMs;
      for (let look = 0; look < 10; look++) {
        pass(10_000);
        assert.deepEqual(ahead(), { now: 0, leases: 0 });
      }
      state.ourAheadMs = 0;
      state.theirAheadMs = 0;
      pass(10_000);
      assert.deepEqual(ahead(), { now: 0, leases: 0 });
    }
  }
});

test("after a step that stayed, leases are compared with the time of before until each was extended", () => {
  const { state, pass, ahead } = machines();
  ahead();
  state.ourAheadMs = hourMs;
  state.theirAheadMs = hourMs;
  pass(1_000);
  pass(adoptAfterMs);
  assert.deepEqual(ahead(), { now: hourMs, leases: 0 });
  pass(119_000);
  assert.deepEqual(ahead(), { now: hourMs, leases: 0 });
  pass(1_000);
  assert.deepEqual(ahead(), { now: hourMs, leases: hourMs });
});

test("a database whose clock differs is what counts, so that platforms agree", () => {
  const { state, pass, ahead } = machines();
  state.ourAheadMs = 0;
  const other = machines();
  other.state.theirAheadMs = 30_000;
  pass(10_000);
  other.pass(10_000);
  other.pass(adoptAfterMs);
  assert.equal(ahead().now, 0);
  assert.equal(other.ahead().now, 30_000);
});
