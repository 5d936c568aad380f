// The command line of the benchmarks, their statistics, and docs/benchmarks.md against what is
// declared. The benchmarks themselves do not run here.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { benchmarks } from "#bench/benchmarks.ts";
import { readCommand } from "#bench/harness/command-line.ts";
import { listRows } from "#bench/harness/document.ts";
import { median, quantile, ratioOfRounds } from "#bench/harness/statistics.ts";
import { projectDir } from "#tidy/tree.ts";

const document = readFileSync(join(projectDir, "docs/benchmarks.md"), "utf8");

test("docs/benchmarks.md lists every benchmark with its options, and no other", () => {
  const rows = document.match(/^\| `node tools\/bench\/main\.ts .*\n/gm) ?? [];
  assert.equal(rows.join(""), listRows(benchmarks));
});

test("every benchmark has a section in docs/benchmarks.md, and every section a benchmark", () => {
  const sections = [...document.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
  const headings = benchmarks.map(({ heading }) => heading);
  assert.deepEqual(sections.toSorted(), [...headings, "Method", "Scaling"].toSorted());
});

test("options that are not given have their defaults", () => {
  const { benchmark, options, isWritten } = readCommand(["step", "--rate=50"], benchmarks);
  assert.equal(benchmark.name, "step");
  assert.deepEqual(options, { rounds: 7, rate: 50, seconds: 4 });
  assert.equal(isWritten, true);
  assert.equal(readCommand(["step", "--no-write"], benchmarks).isWritten, false);
  const { options: proxied } = readCommand(["proxy", "--before=../other"], benchmarks);
  assert.equal(proxied["before"], "../other");
});

test("without a benchmark that is there, all are listed with what they measure and their options", () => {
  for (const parameters of [[], ["other"], ["--rounds=3"]]) {
    const listed = messageOf(parameters);
    for (const { name, measures, options } of benchmarks) {
      assert.match(listed, new RegExp(`^  ${name} `, "m"));
      for (const text of [measures, ...Object.keys(options).map((option) => `--${option}=`)])
        assert.ok(listed.includes(text), text);
    }
  }
  assert.match(messageOf(["other"]), /^There is no benchmark other\./);
});

test("a bad option is named", () => {
  assert.match(messageOf(["usage", "--seconds=3"]), /^Unknown option '--seconds'/);
  assert.match(messageOf(["usage", "more"]), /'more'/);
  for (const value of ["", "0", "-1", "1.5", "x"])
    assert.match(messageOf(["usage", `--rounds=${value}`]), new RegExp(`^--rounds is "${value}"`));
});

test("a quantile is a value that was measured, and a median of an even number the lower one", () => {
  const values = [40, 10, 30, 20];
  assert.deepEqual(
    [0, 0.25, 0.5, 0.51, 0.99, 1].map((share) => quantile(values, share)),
    [10, 10, 20, 30, 40, 40],
  );
  assert.equal(median(values), 20);
  assert.equal(median([]), Number.NaN);
  assert.equal(ratioOfRounds([10, 20, 90], [10, 10, 30]), 2);
});

function messageOf(parameters: readonly string[]): string {
  let message = "";
  assert.throws(
    () => readCommand(parameters, benchmarks),
    (error: Error) => {
      ({ message } = error);
      return true;
    },
  );
  return message;
}
