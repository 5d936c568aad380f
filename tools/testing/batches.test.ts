// Small test files that run together in one process: which they are, and what the outcome says of
// each.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { projectDir } from "#tidy/tree.ts";
import { isBatchFile, writeBatches } from "./batches.ts";
import { fileSeconds } from "./file-times.ts";

test("every file runs once: the slow ones first, those that start processes or wait while they are loaded alone, the others in batches", (t) => {
  const folder = temporaryFolder(t, "batches");
  const source = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return name;
  };
  const small = Array.from({ length: 30 }, (_, index) =>
    source(`small-${index}.test.ts`, "export {};\n"),
  );
  const starting = source("starting.test.ts", 'import { spawn } from "node:child_process";\n');
  const waiting = source("waiting.test.ts", "const first = await ahead(async () => 1);\n");
  const files = writeBatches([starting, waiting, ...small], { cwd: folder, folder });
  const batches = files.filter(isBatchFile);
  assert.deepEqual(files, [...batches, starting, waiting]);
  const run = batches.flatMap((path) => [
    ...readFileSync(path, "utf8").matchAll(/small-\d+\.test\.ts/g),
  ]);
  assert.deepEqual(run.map(([name]) => name).toSorted(), small.toSorted());
  assert.ok(batches.length < small.length / 5);

  const known = Object.keys(fileSeconds).slice(0, 4);
  assert.deepEqual(writeBatches(known, { cwd: projectDir, folder }), known);
});

test("the outcome of a batch names the files of it that failed, and how long each took", (t) => {
  const folder = temporaryFolder(t, "batches");
  mkdirSync(join(folder, "batches"));
  const bodies = { good: "", bad: 'throw new Error("as a test")' };
  for (const [name, body] of Object.entries(bodies)) {
    const text = `import { test } from "node:test";\ntest("${name}", () => { ${body} });\n`;
    writeFileSync(join(folder, `${name}.test.mjs`), text);
  }
  const given = {
    files: ["bad.test.mjs", "good.test.mjs"],
    options: [],
    cwd: folder,
    batchFolder: join(folder, "batches"),
  };
  const program = `import { runNodeTests } from "${pathToFileURL(join(import.meta.dirname, "node-tests.ts")).href}";
const { ok, failed, durations } = await runNodeTests({ ...${JSON.stringify(given)}, signal: new AbortController().signal });
console.log(JSON.stringify({ ok, failed, files: [...durations.keys()].toSorted() }));`;
  // A test cannot run tests in its own process.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  writeFileSync(join(folder, "program.mjs"), program);
  const { stdout } = spawnSync(process.execPath, [join(folder, "program.mjs")], {
    env,
    encoding: "utf8",
  });
  const outcome = { ok: false, failed: ["bad.test.mjs"], files: ["bad.test.mjs", "good.test.mjs"] };
  assert.deepEqual(JSON.parse(stdout.trim().split("\n").at(-1) ?? ""), outcome, stdout);
});
