// Parsing of token lifetimes as people type them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endOf, secondsOf } from "./life.ts";
import { Refused } from "./refused.ts";

const nowMs = Date.parse("2027-01-01T00:00:00Z");
const end = (given: string): string | null => endOf(given, { option: "--expires", nowMs });

test("a duration counts from now, a time is taken as it is, never is null", () => {
  assert.equal(end("90d"), "2027-04-01T00:00:00.000Z");
  assert.equal(end("12h"), "2027-01-01T12:00:00.000Z");
  assert.equal(end("2w"), "2027-01-15T00:00:00.000Z");
  assert.equal(end("2027-05-01T12:00:00+02:00"), "2027-05-01T10:00:00.000Z");
  assert.equal(end("never"), null);
  assert.deepEqual([secondsOf("24h", "--overlap"), secondsOf("0", "--overlap")], [86_400, 0]);
});

test("what is neither is refused as misuse, with the option, what was given and what is allowed", () => {
  for (const given of ["", "soon", "90", "-1d", "1y", "2027-13-45T00:00:00Z", "9999999d"]) {
    assert.throws(
      () => end(given),
      (error) =>
        error instanceof Refused &&
        error.exitCode === 2 &&
        error.message.startsWith(`--expires is "${given}"`),
      given,
    );
  }
  assert.throws(
    () => secondsOf("1", "--overlap"),
    /--overlap is "1", but must be 30m, 24h, 7d or 0\./,
  );
});
