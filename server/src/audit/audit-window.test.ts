// Which part of the log a query reads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import { windowOf } from "./audit-window.ts";
import { instantOfMs, readInstant } from "./instant.ts";

const nowMs = Date.UTC(2026, 5, 30);
const dayMs = 86_400_000;
const at = { nowMs, retentionDays: 10 };
const day = (days: number) => instantOfMs(nowMs + days * dayMs);
const microsOf = (days: number): number => (nowMs + days * dayMs) * 1_000;

test("reads what was asked for, but no further back than entries are kept", () => {
  assert.deepEqual(windowOf({ from: null, to: null }, at), {
    fromMicros: microsOf(-10),
    toMicros: null,
  });
  assert.deepEqual(windowOf({ from: day(-99), to: null }, at), {
    fromMicros: microsOf(-10),
    toMicros: null,
  });
  assert.deepEqual(windowOf({ from: day(-3), to: day(-1) }, at), {
    fromMicros: microsOf(-3),
    toMicros: microsOf(-1),
  });
  assert.equal(windowOf({ from: day(-99), to: day(-50) }, at), null, "all of it is gone");
  assert.equal(windowOf({ from: null, to: day(-10) }, at), null);
  assert.equal(windowOf({ from: day(-1), to: day(-1) }, at), null, "no time at all");
});

test("refuses from after to, however little, and after now where to is left out", () => {
  const isRefused = (error: unknown): boolean => error instanceof Fault && error.code === "invalid";
  assert.throws(() => windowOf({ from: day(-1), to: day(-2) }, at), isRefused);
  assert.throws(() => windowOf({ from: day(1), to: null }, at), isRefused);
  const to = readInstant("2026-06-29T00:00:00.0000001Z");
  const from = readInstant("2026-06-29T00:00:00.00000011Z");
  assert.throws(() => windowOf({ from, to }, at), isRefused);
  assert.throws(
    () => windowOf({ from: day(-98), to: day(-99) }, at),
    isRefused,
    "also outside of what is kept",
  );
});

test("takes times that no entry can have", () => {
  const far = readInstant("9999-12-31T23:59:60Z");
  assert.deepEqual(windowOf({ from: readInstant("0000-01-01T00:00:00+23:59"), to: far }, at), {
    fromMicros: microsOf(-10),
    toMicros: Number.MAX_SAFE_INTEGER,
  });
});
