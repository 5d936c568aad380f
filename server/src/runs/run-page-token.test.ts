// Tokens of lists of runs: read as they were made, and refused when they were altered or made by somebody else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import { newRunId, type AppId } from "#lib/ids.ts";
import { makeRunToken, readRunToken, type RunTokenScope } from "./run-page-token.ts";

const scope: RunTokenScope = { list: "runs", appId: "p-00000001-hello" as AppId, asyncOnly: false, status: null };

test("a token names its place, and is of no other query", () => {
  const place = { atMicros: 1_795_270_291_000_123, id: newRunId() };
  const token = makeRunToken(scope, place);
  assert.deepEqual(readRunToken(scope, token), place);
  assert.throws(() => readRunToken({ ...scope, status: "success" }, token), Fault);
  assert.throws(() => readRunToken(scope, `1${token}`), Fault);
});

test("a token with a right check and a time that there is not is refused", () => {
  for (const atMicros of [4.7e18, 253_402_300_800_000_000, 2 ** 53]) {
    const token = makeRunToken(scope, { atMicros, id: newRunId() });
    assert.throws(() => readRunToken(scope, token), Fault, String(atMicros));
  }
});
