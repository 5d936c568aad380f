// Which settings are listed, and in which order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { listedSettings } from "./setting-order.ts";

const settings = { name: 1, cliVersion: 2, healthEndpoint: 3, memory: 4, gitLfs: 5, compute: 6 };
const listed = (search: string): string[] => listedSettings(settings, search).map(([name]) => name);

test("what people change most is first, and what clients write is last", () => {
  assert.deepEqual(listed(""), [
    "compute",
    "memory",
    "gitLfs",
    "healthEndpoint",
    "cliVersion",
    "name",
  ]);
});

test("a setting is found by its name, or by a word of what it is about, without regard to case", () => {
  assert.deepEqual(listed("LFS"), ["gitLfs"]);
  assert.deepEqual(listed("stores in GIT"), ["gitLfs"]);
  assert.deepEqual(listed("no such word"), []);
});
