// Which test files a change chooses, and whether every file of the project leads to some.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { importTable } from "#rules.ts";
import { parseSources } from "#tidy/source.ts";
import { projectDir, readTree } from "#tidy/tree.ts";
import { always, foundation, readers, rules, sourceFiles, untested } from "./choice-rules.ts";
import { chooseFiles, importersOf, partsCount, partsOf, reachedFrom } from "./choice.ts";

const sources = parseSources(readTree(sourceFiles));
const importers = importersOf(sources);
const isTestFile = (path: string): boolean => path.endsWith(".test.ts");
const allTests = sources.map(({ path }) => path).filter(isTestFile);
/** All files of the project; none outside of a repository. */
const listed = spawnSync("git", ["ls-files"], { cwd: projectDir, encoding: "utf8" });
const everything = (listed.stdout ?? "").split("\n").filter((path) => path !== "");
const skip = everything.length === 0 && "this folder is not a git repository";

const small = parseSources({
  "server/src/deploy/one.ts": "export const one = 1;\n",
  "server/src/deploy/two.ts": 'import { one } from "./one.ts";\nexport const two = one + 1;\n',
  "server/src/deploy/two.test.ts": 'import { two } from "./two.ts";\n',
  "server/src/deploy/type.test.ts": 'import type { One } from "./one.ts";\n',
  "server/src/runs/read.test.ts": 'const text = read("docs/some-words.md");\n',
  "server/src/runs/start.test.ts": 'const child = new URL("child.mjs", import.meta.url);\n',
  "server/test/deploy-whole.test.ts": "export {};\n",
  "server/test/other.test.ts": "export {};\n",
});

/** What a change of these files chooses, without the part whose turn it is. */
function chosen(...changed: readonly string[]): string[] {
  const tests = small.map(({ path }) => path).filter(isTestFile);
  // The part is empty: there are fewer files.
  const turn = partsCount - 1;
  const given = { tests, sources: small, changed, turn, seconds: () => 1 };
  return [...chooseFiles(given).files];
}

test("a change chooses the tests that load it, directly or through others, and those of its rules", () => {
  const whole = "server/test/deploy-whole.test.ts";
  assert.deepEqual(chosen("server/src/deploy/one.ts"), ["server/src/deploy/two.test.ts", whole]);
  assert.deepEqual(chosen("server/test/other.test.ts"), ["server/test/other.test.ts"]);
});

test("a change of what is read or started chooses the tests that name it", () => {
  assert.deepEqual(chosen("docs/some-words.md"), ["server/src/runs/read.test.ts"]);
  assert.ok(chosen("server/src/runs/child.mjs").includes("server/src/runs/start.test.ts"));
});

test("a change of what all rest on chooses all, and no change the tests beside the code", () => {
  assert.equal(chosen("package-lock.json").length, small.filter((s) => isTestFile(s.path)).length);
  const beside = small.map(({ path }) => path).filter((path) => /src\/.*\.test\.ts$/.test(path));
  assert.deepEqual(chosen(), beside);
});

test("every file has its turn within as many commits as there are parts, whatever has changed", () => {
  const seconds = (file: string): number => file.length;
  const parts = partsOf(allTests, seconds);
  assert.equal(parts.length, partsCount);
  assert.deepEqual(parts.flat().toSorted(), allTests.toSorted());
  const sums = parts.map((files) => files.reduce((sum, file) => sum + seconds(file), 0));
  assert.ok(Math.max(...sums) < 1.2 * Math.min(...sums));
  const given = { tests: allTests, sources: [], changed: ["LICENSE"], seconds };
  const seen = new Set<string>();
  for (let turn = 7; turn < 7 + partsCount; turn++)
    for (const file of chooseFiles({ ...given, turn }).files) seen.add(file);
  assert.equal(seen.size, allTests.length);
});

test("the rules name what is there, and every area has one", { skip }, () => {
  for (const file of [...always, ...readers.map(({ reader }) => reader)])
    assert.ok(existsSync(join(projectDir, file)), file);
  const names = allTests.flatMap((path) => /^server\/test\/(.*)\.test\.ts$/.exec(path)?.[1] ?? []);
  for (const { changed, tests } of rules) {
    assert.ok(
      everything.some((path) => changed.test(path)),
      `${changed} matches a file`,
    );
    for (const part of alternatives(tests))
      assert.ok(
        names.some((name) => part.test(name)),
        `${part} of ${tests} matches a test`,
      );
  }
  for (const area of Object.keys(importTable).filter((name) => name !== "contract")) {
    const path = `server/src/${area}/x.ts`;
    assert.ok(
      rules.some(({ changed }) => changed.test(path)),
      `${area} has a rule`,
    );
  }
});

test("every file of the project leads to a test beyond those that always run", { skip }, () => {
  const given = { tests: allTests, sources, turn: 0, seconds: () => 0 };
  const idle = everything.filter((path) => {
    if (foundation.test(path) || untested.some((row) => row.test(path))) return false;
    if (rules.some(({ changed }) => changed.test(path))) return false;
    if ([...reachedFrom([path], importers)].some(isTestFile)) return false;
    const { reasons } = chooseFiles({ ...given, changed: [path] });
    return !reasons.some(({ why }) => why === "load what differs");
  });
  assert.deepEqual(idle, []);
});

test("every test that starts the platform, the command line or an engine is in a rule", () => {
  const starting = ["platform-process", "slipway-command", "docker-engine", "browser"];
  const files = starting.map((name) => `server/test/support/${name}.ts`);
  const unnamed = [...reachedFrom(files, importers)].filter((path) => {
    const name = /^server\/test\/([^/]+)\.test\.ts$/.exec(path)?.[1];
    return name !== undefined && !rules.some(({ tests }) => tests.test(name));
  });
  assert.deepEqual(unnamed, []);
});

/** The parts of `^(a|b)`, each as an expression of its own. */
function alternatives({ source }: RegExp): RegExp[] {
  const inner = /^\^\((.*)\)$/.exec(source)?.[1];
  if (inner === undefined || inner.includes("(")) return [new RegExp(source)];
  return inner.split("|").map((part) => new RegExp(`^${part}`));
}
