// Tokens of lists of webhooks: read as they were made, and refused when they were altered or made by somebody else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import { makeToken, readToken } from "./list-token.ts";

const scope = ["deliveries", "p-00000001", undefined];
const id = "ef812a41-8140-8978-8001-9cab8c0f5c85";

test("a token names its place, and is of no other list", () => {
  for (const place of [["17"], ["1795270291000123", id]]) {
    assert.deepEqual(readToken(scope, makeToken(scope, place)), place);
    assert.throws(() => readToken(["endpoints", "p-00000001", undefined], makeToken(scope, place)), Fault);
  }
});

test("a token with a right check and a place that there cannot be is refused", () => {
  for (const place of [["abc"], ["1e400"], [""], ["1", "x"], ["9".repeat(25)], ["1;"]]) {
    assert.throws(() => readToken(scope, makeToken(scope, place)), Fault, place.join(" "));
  }
});
