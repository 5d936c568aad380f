// Which fault a caller is told for which error.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import { faultOf } from "./errors.ts";

const withCode = (code: string, message = "x"): Error => Object.assign(new Error(message), { code });

test("faults are told as they are, errors of the framework and the database by what they mean", () => {
  const fault = new Fault("conflict", "taken");
  assert.equal(faultOf(fault, "id"), fault);
  const expected: readonly (readonly [unknown, string])[] = [
    [withCode("FST_ERR_CTP_BODY_TOO_LARGE"), "too_large"],
    [withCode("FST_ERR_CTP_INVALID_MEDIA_TYPE"), "unsupported_media_type"],
    [Object.assign(new Error("x"), { code: "FST_ERR_BAD_URL", statusCode: 400 }), "malformed"],
    [withCode("ECONNREFUSED"), "unavailable"],
    [withCode("ECONNRESET"), "unavailable"],
    [Object.assign(withCode("ECONNRESET", "aborted"), { statusCode: 400 }), "malformed"],
    [withCode("57P01"), "unavailable"],
    [withCode("53300"), "unavailable"],
    [new Error("Connection terminated unexpectedly"), "unavailable"],
    [new Error("timeout exceeded when trying to connect"), "unavailable"],
    [withCode("23505"), "internal"],
    [new Error("secret detail"), "internal"],
    ["a text", "internal"],
    [undefined, "internal"],
  ];
  for (const [error, code] of expected) {
    const told = faultOf(error, "the-id");
    assert.equal(told.code, code, String(error));
    assert.doesNotMatch(told.message, /secret detail/);
    if (code === "internal") assert.match(told.message, /the-id/);
    if (code === "unavailable") assert.equal(told.retryAfterSeconds, 1);
  }
});
