// What a benchmark runs with. The test support of the server cleans up after a benchmark as after a
// test, also when it is interrupted.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { projectDir } from "#tidy/tree.ts";

/** `t`: for the test support; it has only `after`, and the last thing is cleaned up first. */
export type Context = {
  readonly t: TestContext;
  readonly print: (line: string) => void;
};

/**
 * Where people keep data folders, unlike /tmp: a sandbox has its own /tmp, and shows folders below
 * the machine's at more cost.
 */
const temporaryDir = join(projectDir, "node_modules/.cache/bench");

/** Runs a benchmark, and cleans up after it. */
export async function inContext<Result>(
  run: (context: Context) => Promise<Result>,
): Promise<Result> {
  mkdirSync(temporaryDir, { recursive: true });
  process.env["TMPDIR"] = temporaryDir;
  const cleanups: (() => unknown)[] = [];
  const cleanUp = async (): Promise<void> => {
    // Some are added while others run.
    for (let clean = cleanups.shift(); clean !== undefined; clean = cleanups.shift()) await clean();
  };
  const interrupted = (): void => void cleanUp().finally(() => process.exit(1));
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted);
  try {
    const t = {
      after: (clean: () => unknown) => void cleanups.unshift(clean),
    } as unknown as TestContext;
    return await run({ t, print: (line) => console.log(line) });
  } finally {
    await cleanUp();
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted);
  }
}
