// Which fault a caller is told for which error.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyReply } from "fastify";
import { Fault } from "#lib/fault.ts";
import { createLog } from "#lib/log.ts";
import { faultOf, sendFault } from "./errors.ts";

const request = { id: "the-id", routeOptions: { bodyLimit: 26_214_400 } };

const withCode = (code: string, message = "x"): Error =>
  Object.assign(new Error(message), { code });

test("faults are told as they are, errors of the framework and the database by what they mean", () => {
  const fault = new Fault("conflict", "taken");
  assert.equal(faultOf(fault, request), fault);
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
    const answered = faultOf(error, request);
    assert.equal(answered.code, code, String(error));
    assert.doesNotMatch(answered.message, /secret detail/);
    if (code === "internal") assert.match(answered.message, /the-id/);
    if (code === "unavailable") assert.equal(answered.retryAfterSeconds, 1);
  }
});

test("the text about a body that is too large names the limit of its route", () => {
  const { message } = faultOf(withCode("FST_ERR_CTP_BODY_TOO_LARGE"), request);
  assert.equal(message, "The body is too large: the limit is 25 MiB.");
});

test("what failed is logged with its cause, what is merely refused is not", () => {
  const cause = new Error("gone");
  const cases: readonly (readonly [Fault, boolean])[] = [
    [new Fault("internal", "no"), true],
    [new Fault("unavailable", "the database is away", { cause }), true],
    [new Fault("unavailable", "stopping"), false],
    [new Fault("malformed", "no", { cause }), false],
  ];
  for (const [fault, isLogged] of cases) {
    const lines: string[] = [];
    const log = createLog({
      level: "info",
      pretty: false,
      to: { write: (line: string) => void lines.push(line) },
    });
    const reply = {
      request: { id: "the-id" },
      header: () => reply,
      hasHeader: () => false,
      code: () => reply,
      type: () => reply,
      send: () => reply,
    };
    sendFault(fault, reply as unknown as FastifyReply, log);
    assert.equal(lines.length, isLogged ? 1 : 0, fault.message);
    if (fault.cause !== undefined && isLogged) assert.match(lines[0] ?? "", /"message":"gone"/);
  }
});
