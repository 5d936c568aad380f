// What a map has for a key is made once, also when it is undefined.
import assert from "node:assert/strict";
import { test } from "node:test";
import { getOrInsert } from "./get-or-insert.ts";
import { LruMap } from "./lru-map.ts";

test("a missing value is made once and kept", () => {
  const map = new Map<string, string[]>();
  getOrInsert(map, "a", () => []).push("first");
  getOrInsert(map, "a", () => []).push("second");
  assert.deepEqual([...map], [["a", ["first", "second"]]]);
});

test("undefined that is there is not made again", () => {
  const map = new Map<string, number | undefined>([["a", undefined]]);
  assert.equal(
    getOrInsert(map, "a", () => 1),
    undefined,
  );
});

test("a bounded map keeps what is asked for and drops what was used least recently", () => {
  const map = new LruMap<string, number>(2);
  getOrInsert(map, "a", () => 1);
  getOrInsert(map, "b", () => 2);
  getOrInsert(map, "a", () => 3);
  getOrInsert(map, "c", () => 4);
  assert.deepEqual(
    [...map],
    [
      ["a", 1],
      ["c", 4],
    ],
  );
});
