// pip for builds of tests. To install it takes four seconds of a processor for each data folder, so the runner has it made once
// and names the place in SLIPWAY_TEST_PIP; builds of a file that is run alone make it themselves.
import { copyFileSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The variable by which the runner tells test files where pip was made. */
export const pipSeedVariable = "SLIPWAY_TEST_PIP";

/** Lets builds below the folder find what `makePipSeed` made. They have pointers of their own, so that none removes it. */
export function givePip(buildsDir: string): void {
  const seed = process.env[pipSeedVariable] ?? "";
  const tools = toolsBelow(buildsDir);
  if (seed === "" || existsSync(tools)) return;
  mkdirSync(tools, { recursive: true });
  for (const name of readdirSync(seed).filter((one) => one.endsWith(".json"))) {
    copyFileSync(join(seed, name), join(tools, name));
  }
}

/** Where a builder keeps what fills environments. */
export function toolsBelow(buildsDir: string): string {
  return join(buildsDir, "cache/tools");
}
