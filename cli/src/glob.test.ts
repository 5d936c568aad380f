// Patterns of include and exclude against whole paths.
import assert from "node:assert/strict";
import { test } from "node:test";
import { globTest } from "./glob.ts";

test("a pattern matches whole paths: * within a name, ** any depth, sets and alternatives", () => {
  const cases: readonly [string, readonly string[], readonly string[]][] = [
    ["*", ["a", ".a"], ["a/b"]],
    [".*", [".git", ".env"], ["sub/.hid", ".git/config"]],
    ["./src/*.py", ["src/a.py"], ["src/b/a.py", "a.py"]],
    ["**/*.py", ["a.py", "x/y/a.py"], ["a.pyc"]],
    ["data/", ["data/a", "data/b/c"], ["data2/a"]],
    ["data/**", ["data", "data/a/b"], ["datax"]],
    ["a/**/z", ["a/z", "a/b/c/z"], ["az"]],
    ["{a,b*}.txt", ["a.txt", "bcd.txt"], ["c.txt"]],
    ["[a-c]?", ["a1", "c."], ["d1", "a/"]],
    ["[!a].py", ["b.py"], ["a.py", "/.py"]],
    ["\\*.py", ["*.py"], ["a.py"]],
    ["*{a,b/*}{,z}", ["xa", "b/", "xb/yz", "xaz"], ["x", "x/a", "xz"]],
    ["{a,{b,c}d}e", ["ae", "bde", "cde"], ["be", "ade"]],
    ["?", ["🌊"], ["ab"]],
    ["a,b", ["a,b"], ["a"]],
    ["a+(b).c", ["a+(b).c"], ["aab.c"]],
  ];
  for (const [pattern, matching, others] of cases) {
    const matches = globTest(pattern);
    for (const path of matching) assert.equal(matches?.(path), true, `${pattern} matches ${path}`);
    for (const path of others)
      assert.equal(matches?.(path), false, `${pattern} does not match ${path}`);
  }
});

test("a pattern with an open bracket is none", () => {
  for (const pattern of ["[a", "{a", "a}", "\\", "[z-a]", "a".repeat(1001)])
    assert.equal(globTest(pattern), null, pattern);
});

test("a pattern that would make a regular expression try forever is answered", () => {
  assert.equal(globTest("*a".repeat(400) + "b")?.("a".repeat(4000)), false);
  assert.equal(globTest("{a,aa,**}".repeat(100))?.("a".repeat(1000)), true);
});
