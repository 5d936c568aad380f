// What is told of two releases, with names of settings that objects have by themselves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { differencesOf } from "./setting-differences.ts";

test("only settings that differ are told, by name, also those that one release lacks", () => {
  const from = { cpu: 1, memory: 2, name: "app", regions: ["a"], old: true, empty: null };
  const to = {
    name: "app",
    regions: ["a", "b"],
    cpu: 2,
    memory: 2,
    empty: "",
    __proto__: null,
    constructor: "x",
  };
  assert.deepEqual(differencesOf(from, to), [
    { name: "constructor", from: "–", to: "x" },
    { name: "cpu", from: "1", to: "2" },
    { name: "old", from: "true", to: "–" },
    { name: "regions", from: '["a"]', to: '["a","b"]' },
  ]);
});
