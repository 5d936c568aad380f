// What the first line of an export and a place of its chain say beside an earlier export.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chainBegin,
  exportHeader,
  type ChainPosition,
} from "@slipway/server/src/audit/export/export-format.ts";
import type { Intact } from "./verdict.ts";
import { headerFault, positionFault } from "./verify-earlier.ts";

const position = (number: number, digit: string): ChainPosition => ({
  number,
  hash: digit.repeat(64),
});
const header = (after: ChainPosition, through: ChainPosition, project: string = "p-1") =>
  exportHeader({
    project,
    exportedAt: "2026-02-01T00:00:00.000Z",
    filter: null,
    after,
    through,
    jws: "",
  });
const earlier: Intact = {
  result: "intact",
  project: "p-1",
  exportedAt: "2026-01-01T00:00:00.000Z",
  after: chainBegin,
  through: position(5, "a"),
  stub: null,
  checkpoints: 1,
  areSigned: true,
};

test("a first line fits an earlier export, speaks against it, or leaves nothing to compare", () => {
  for (const fits of [
    header(chainBegin, position(5, "a")),
    header(position(3, "c"), position(9, "b")),
  ]) {
    assert.equal(headerFault(fits, earlier), null);
  }
  assert.equal(
    headerFault(header(position(5, "a"), position(9, "b")), earlier),
    null,
    "the stub is of its last entry",
  );
  for (const [given, form] of [
    [header(position(5, "b"), position(9, "b")), { result: "broken", trouble: "altered" }],
    [header(chainBegin, position(4, "b")), { result: "broken", trouble: "truncated" }],
    [header(position(6, "b"), position(9, "b")), { result: "unverifiable" }],
    [header(chainBegin, position(9, "b"), "p-2"), { result: "unverifiable" }],
  ] as const) {
    assert.partialDeepStrictEqual(headerFault(given, earlier), form);
  }
});

test("a place is another one than the earlier export ended with, or says nothing", () => {
  assert.equal(positionFault(position(5, "a"), 7, earlier), null);
  assert.equal(positionFault(position(4, "b"), 6, earlier), null);
  assert.partialDeepStrictEqual(positionFault(position(5, "b"), 7, earlier), {
    trouble: "altered",
    line: 7,
    entry: 5,
  });
});
