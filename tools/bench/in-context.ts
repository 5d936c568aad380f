// What the test support needs of a test, for benchmarks: it cleans up after them, the last thing first.
import type { TestContext } from "node:test";

/** Runs a benchmark; `t` has only `after`. */
export async function inContext<Result>(run: (t: TestContext) => Promise<Result>): Promise<Result> {
  const cleanups: (() => unknown)[] = [];
  try {
    return await run({ after: (clean: () => unknown) => void cleanups.unshift(clean) } as unknown as TestContext);
  } finally {
    // Some are added while others run.
    for (let clean = cleanups.shift(); clean !== undefined; clean = cleanups.shift()) await clean();
  }
}
