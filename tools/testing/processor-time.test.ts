// The processor time of test files: what a process has used with its children, and how it is kept.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { processorSeconds, readProcessorTimes, writeProcessorTime } from "./processor-time.ts";

test("a process that has ended counts for the one that waited for it", (t) => {
  if (process.platform !== "linux") return t.skip("only /proc says it");
  const before = processorSeconds();
  const work = "const end = process.cpuUsage().user + 3e5; while (process.cpuUsage().user < end);";
  assert.equal(spawnSync(process.execPath, ["-e", work]).status, 0);
  assert.ok(processorSeconds() - before >= 0.3);
});

test("times are read with the highest first", (t) => {
  const folder = temporaryFolder(t, "times");
  writeProcessorTime(folder, "with a space.test.ts");
  writeFileSync(join(folder, "1"), "10000000 slow.test.ts");
  writeFileSync(join(folder, "2"), "0 idle.test.ts");
  const files = readProcessorTimes(folder).map(([file]) => file);
  assert.deepEqual(files, ["slow.test.ts", "with a space.test.ts", "idle.test.ts"]);
});
