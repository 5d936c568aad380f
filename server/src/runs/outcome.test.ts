// What becomes of a run: each ending, with and without attempts left, cancelled or not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault, faultTable, type FaultCode } from "#lib/fault.ts";
import type { RunEnding } from "#proxy/run-call.ts";
import { outcomeOf, type Interrupted, type JudgedRun, type Outcome } from "./outcome.ts";

/** A run waits for a replica no longer than 12 hours. */
const waitMsMax = 12 * 3_600_000;
const at = { nowMs: 1_000_000, random: 0.5 };
const once: JudgedRun = { attempt: 1, retriesMax: 0, waitsSinceMs: 999_000, isCancelled: false };
const retrying: JudgedRun = { ...once, retriesMax: 2 };

function answered(status: number): RunEnding {
  return {
    kind: "answered",
    status,
    contentType: "text/plain",
    body: Buffer.from("x"),
    bodyBytes: 1,
  };
}

function failed(code: FaultCode, wasSent = true): RunEnding {
  return { kind: "failed", fault: new Fault(code, `told ${code}`), wasSent };
}

const interrupted: Interrupted = {
  kind: "interrupted",
  reason: "interrupted: the platform was restarted.",
};

function brief(outcome: Outcome): string {
  if (outcome.kind === "again")
    return `again in ${outcome.delayMs}${outcome.isCounted ? "" : ", not counted"}`;
  const { state, statusCode, result, forwarded } = outcome;
  return [
    state,
    statusCode,
    result === null ? "no result" : "result",
    forwarded?.status ?? "not forwarded",
  ].join(", ");
}

function become(ending: RunEnding | Interrupted, run: JudgedRun = once): string {
  return brief(outcomeOf(ending, run, at));
}

test("the state follows the answer, which is kept and forwarded whatever its status", () => {
  assert.equal(become(answered(200)), "success, 200, result, 200");
  assert.equal(become(answered(204)), "success, 204, result, 204");
  assert.equal(become(answered(302)), "failure, 302, result, 302");
  assert.equal(become(answered(404)), "failure, 404, result, 404");
  assert.equal(become(answered(500)), "failure, 500, result, 500");
});

test("without an answer it ends with the platform's fault, which is what the webhook gets", () => {
  assert.equal(become(failed("replica_failed")), "failure, 502, no result, 502");
  assert.equal(become(failed("call_timeout")), "timeout, 504, no result, 504");
  assert.equal(become(failed("internal")), "failure, 500, no result, 500");
  assert.equal(become(interrupted), "failure, , no result, 502");
  const outcome = outcomeOf(failed("call_timeout"), once, at);
  assert.ok(outcome.kind === "final");
  assert.deepEqual(JSON.parse(String(outcome.forwarded?.body)), { message: "told call_timeout" });
  assert.equal(outcome.reason, "told call_timeout");
});

test("the run has why its replica ended, but its webhook does not: that may quote the call of somebody else", () => {
  const why = "The app ended with exit code 1: ValueError: no card 4111.";
  const outcome = outcomeOf({ ...failed("replica_failed"), why } as RunEnding, once, at);
  assert.ok(outcome.kind === "final");
  assert.equal(outcome.reason, why);
  assert.deepEqual(JSON.parse(String(outcome.forwarded?.body)), { message: "told replica_failed" });
  const again = outcomeOf({ ...failed("replica_failed"), why } as RunEnding, retrying, at);
  assert.equal(again.reason, why);
});

test("with attempts left it is tried again, later each time, where another attempt may help", () => {
  for (const ending of [
    ...[408, 425, 429, 500, 503].map(answered),
    failed("replica_failed"),
    failed("call_timeout"),
    interrupted,
  ]) {
    assert.equal(become(ending, retrying), "again in 1000");
    assert.equal(become(ending, { ...retrying, attempt: 2 }), "again in 2000");
    assert.match(become(ending, { ...retrying, attempt: 3 }), /^(?:failure|timeout), /);
  }
  for (const ending of [
    answered(404),
    answered(422),
    answered(302),
    failed("not_deployed", false),
  ]) {
    assert.match(become(ending, retrying), /^failure, /);
  }
});

test("whatever kept it from a replica, a run that the app has not seen waits without counting, up to 12 hours", () => {
  const codes = [
    "line_full",
    "line_timeout",
    "unavailable",
    "start_failed",
    "replica_failed",
    "internal",
  ] as const;
  for (const code of codes) {
    const ending = failed(code, false);
    const outcome = outcomeOf(ending, once, at);
    assert.equal(brief(outcome), "again in 1000, not counted");
    assert.equal(outcome.reason, `told ${code}`, "it is shown while it waits");
    assert.match(
      become(ending, { ...once, waitsSinceMs: at.nowMs - waitMsMax }),
      /^timeout, 50[0234], no result, 50/,
    );
  }
});

test("a webhook does not tell why no replica could be started: that may quote the app's log", () => {
  const late = { ...once, waitsSinceMs: at.nowMs - waitMsMax };
  const sent = (code: FaultCode): unknown => {
    const outcome = outcomeOf(failed(code, false), late, at);
    assert.ok(outcome.kind === "final");
    assert.equal(outcome.reason, `No replica took it within 12 hours. told ${code}`);
    return JSON.parse(String(outcome.forwarded?.body));
  };
  assert.deepEqual(sent("start_failed"), { message: "No replica took it within 12 hours." });
  assert.deepEqual(sent("line_timeout"), {
    message: "No replica took it within 12 hours. told line_timeout",
  });
});

test("a run of an app that a budget has stopped goes back, however long it has waited", () => {
  for (const wasSent of [true, false]) {
    const old = { ...once, waitsSinceMs: at.nowMs - 100 * waitMsMax };
    assert.equal(become(failed("budget_reached", wasSent), old), "again in 1000, not counted");
    assert.match(
      become(failed("budget_reached", wasSent), { ...old, isCancelled: true }),
      /^cancelled, /,
    );
  }
});

test("a cancelled one is cancelled unless it was answered by then, and forwards nothing", () => {
  const cancelled = { ...retrying, isCancelled: true };
  for (const ending of [
    { kind: "withdrawn" } as const,
    failed("replica_failed"),
    failed("call_timeout"),
    interrupted,
  ]) {
    assert.equal(become(ending, cancelled), "cancelled, , no result, not forwarded");
  }
  assert.equal(become(answered(200), cancelled), "success, 200, result, 200");
  assert.equal(become(answered(404), cancelled), "failure, 404, result, 404");
  assert.equal(
    become(answered(500), cancelled),
    "cancelled, , no result, not forwarded",
    "it was interrupted",
  );
});

test("one that was withdrawn without being cancelled goes back at once", () => {
  assert.equal(become({ kind: "withdrawn" }), "again in 0, not counted");
});

test("every fault has an outcome", () => {
  for (const code of Object.keys(faultTable) as FaultCode[]) {
    assert.match(become(failed(code)), /^(?:failure|timeout|again)/);
  }
});

test("the reason of a failure has what the app says of it, cut to a line", () => {
  const reasonOf = (text: string, contentType = "application/json"): string | null => {
    const body = Buffer.from(text);
    const outcome = outcomeOf(
      { kind: "answered", status: 500, contentType, body, bodyBytes: body.length },
      once,
      at,
    );
    return outcome.reason;
  };
  assert.equal(
    reasonOf('{"message":"ValueError: no such page."}'),
    "The app answered with status 500: ValueError: no such page.",
  );
  for (const text of ["{", "[]", "null", '{"message":7}', '{"message":""}', '"message"']) {
    assert.equal(reasonOf(text), "The app answered with status 500.", text);
  }
  assert.equal(reasonOf('{"message":"x"}', "text/html"), "The app answered with status 500.");
  assert.equal(
    reasonOf('{"message":"two\\nlines\\u0000"}'),
    "The app answered with status 500: two lines.",
  );
  assert.ok((reasonOf(JSON.stringify({ message: "x".repeat(5_000) })) ?? "").length < 400);
});

test("what is cut off because its replica made way for another one is tried again without using up an attempt", () => {
  const reclaimed = { ...once, isReclaimed: true };
  for (const ending of [failed("replica_failed"), answered(503), interrupted]) {
    assert.equal(become(ending, reclaimed), "again in 1000, not counted");
    assert.match(become(ending, { ...reclaimed, isCancelled: true }), /^cancelled, |^failure, 503/);
    assert.match(
      become(ending, { ...reclaimed, waitsSinceMs: at.nowMs - waitMsMax }),
      /^failure, /,
    );
  }
  assert.equal(
    become(answered(500), reclaimed),
    "failure, 500, result, 500",
    "the app's own failure stays one",
  );
  assert.equal(become(answered(200), reclaimed), "success, 200, result, 200");
  assert.equal(become(failed("call_timeout"), reclaimed), "timeout, 504, no result, 504");
});

test("a run that finds nothing to serve it is tried again when the fault says, so that many do not come back each second", () => {
  const fault = new Fault("unavailable", "The engine does not answer.", { retryAfterSeconds: 10 });
  assert.equal(become({ kind: "failed", fault, wasSent: false }), "again in 10000, not counted");
});
