// What the test support needs of a test, for benchmarks: it cleans up after them, the last thing
// first.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { projectDir } from "#tidy/tree.ts";

/**
 * Where people keep data folders, unlike /tmp: a sandbox has its own /tmp, and shows folders below
 * the machine's at more cost.
 */
const temporaryDir = join(projectDir, "node_modules/.cache/bench");

/** Runs a benchmark; `t` has only `after`. */
export async function inContext<Result>(run: (t: TestContext) => Promise<Result>): Promise<Result> {
  mkdirSync(temporaryDir, { recursive: true });
  process.env["TMPDIR"] = temporaryDir;
  const cleanups: (() => unknown)[] = [];
  try {
    return await run({
      after: (clean: () => unknown) => void cleanups.unshift(clean),
    } as unknown as TestContext);
  } finally {
    // Some are added while others run.
    for (let clean = cleanups.shift(); clean !== undefined; clean = cleanups.shift()) await clean();
  }
}
