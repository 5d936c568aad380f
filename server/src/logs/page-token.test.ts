// Tokens of pages of app logs: read as they were made, and refused when they were altered or made by somebody else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import { makePageToken, readPageToken, type TokenScope } from "./page-token.ts";

const scope: TokenScope = { appId: "p-00000001-hello" as AppId, direction: "forward" };

test("a token names its place, and is of no other query", () => {
  const place = { at: 1_795_270_291_000, id: 17 };
  const token = makePageToken(scope, place);
  assert.deepEqual(readPageToken(scope, token), place);
  assert.throws(() => readPageToken({ ...scope, direction: "backward" }, token), Fault);
  assert.throws(() => readPageToken(scope, `1${token}`), Fault);
});

test("a token with a right check and a place that there cannot be is refused", () => {
  for (const place of [
    { at: 8_640_000_000_000_001, id: 1 },
    { at: 2 ** 53, id: 1 },
    { at: 1, id: 2 ** 56 },
  ]) {
    assert.throws(() => readPageToken(scope, makePageToken(scope, place)), Fault, JSON.stringify(place));
  }
});
