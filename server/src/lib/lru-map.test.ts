// The bound of the LRU map and its order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LruMap } from "./lru-map.ts";

test("it never holds more than its bound, and lets go of what was not used for longest", () => {
  const map = new LruMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  assert.equal(map.get("a"), 1);
  map.set("c", 3);
  assert.equal([...map.entries()].length, 2);
  assert.equal(map.get("b"), undefined);
  map.set("a", 10);
  map.set("d", 4);
  assert.deepEqual(
    [...map.entries()],
    [
      ["a", 10],
      ["d", 4],
    ],
  );
});
