// Times of RFC 3339 in all their forms, and how exact they stay.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isAfter, microsFrom, readInstant, timeOfMicros } from "./instant.ts";

const micros = (text: string): bigint =>
  microsFrom(readInstant(text) ?? assert.fail(`${text} is a time`));

test("every form that RFC 3339 has of one time is that time", () => {
  const expected = BigInt(Date.UTC(2026, 0, 31, 12)) * 1_000n;
  for (const text of [
    "2026-01-31T12:00:00Z",
    "2026-01-31t12:00:00z",
    "2026-01-31 12:00:00Z",
    "2026-01-31T12:00:00+00:00",
    "2026-01-31T12:00:00-00:00",
    "2026-01-31T17:30:00+05:30",
    "2026-01-31T01:00:00-11:00",
    "2026-02-01T11:59:00+23:59",
    "2026-01-30T12:01:00-23:59",
    "2026-01-31T12:00:00.0Z",
    `2026-01-31T12:00:00.${"0".repeat(500)}Z`,
  ]) {
    assert.equal(micros(text), expected, text);
  }
  assert.equal(micros("2026-01-31T12:00:00.25+00:00"), expected + 250_000n);
  assert.equal(micros("2026-01-31T12:00:00.000001Z"), expected + 1n);
  assert.equal(micros("1969-12-31T23:59:59Z"), -1_000_000n);
  assert.ok(micros("0000-01-01T00:00:00+01:00") < micros("0099-01-01T00:00:00Z"));
  assert.equal(micros("9999-12-31T23:59:59Z"), 253_402_300_799_000_000n);
  assert.equal(micros("2024-02-29T00:00:00Z"), BigInt(Date.UTC(2024, 1, 29)) * 1_000n);
});

test("what is finer than a microsecond is kept apart when times are compared, and ends at the next microsecond", () => {
  const [one, other] = ["2026-01-01T00:00:00.0000005Z", "2026-01-01T00:00:00.00000051Z"].map(
    readInstant,
  );
  assert.ok(one && other);
  assert.deepEqual(
    [isAfter(other, one), isAfter(one, other), isAfter(one, one)],
    [true, false, false],
  );
  assert.equal(microsFrom(one), micros("2026-01-01T00:00:00.000001Z"));
  assert.deepEqual(readInstant("2026-01-01T00:00:00.00000050Z"), one);
});

test("a leap second is the beginning of the second after it, where there can be one", () => {
  const after = micros("2017-01-01T00:00:00Z");
  for (const text of [
    "2016-12-31T23:59:60Z",
    "2016-12-31T23:59:60.75Z",
    "2016-12-31T15:59:60-08:00",
  ]) {
    assert.equal(micros(text), after, text);
  }
  for (const text of [
    "2016-12-30T23:59:60Z",
    "2016-12-31T23:58:60Z",
    "2016-12-31T23:59:60+01:00",
  ]) {
    assert.equal(readInstant(text), null, text);
  }
});

test("what is no time is none", () => {
  for (const text of [
    "",
    "now",
    "2026",
    "2026-01-31",
    "2026-01-31T12:00Z",
    "2026-01-31T12:00:00",
    "2026-01-31T12:00:00.Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-32T00:00:00Z",
    "2026-01-31T24:00:00Z",
    "2026-01-31T12:60:00Z",
    "2026-01-31T12:00:61Z",
    "2026-01-31T12:00:00+24:00",
    "2026-01-31T12:00:00+01:60",
    "2026-01-31T12:00:00+0100",
    "2026-01-31T12:00:00 01:00",
    "2026-01-31T12:00:00,5Z",
    "+02026-01-31T12:00:00Z",
    " 2026-01-31T12:00:00Z",
    "2026-01-31T12:00:00Z\n",
    "1769860800",
    "２026-01-31T12:00:00Z",
  ]) {
    assert.equal(readInstant(text), null, JSON.stringify(text));
  }
});

test("times of the database are written to the microsecond", () => {
  assert.equal(timeOfMicros(1_769_860_800_000_007), "2026-01-31T12:00:00.000007Z");
  assert.equal(timeOfMicros(0), "1970-01-01T00:00:00.000000Z");
  const last = "9999-12-31T23:59:59.999999Z";
  assert.equal(timeOfMicros(micros(last)), last);
});
