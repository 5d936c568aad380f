// Provides pip for builds in tests. Installing it takes four seconds of CPU time per data folder,
// so the runner installs it once and names the folder in SLIPWAY_TEST_PIP. If a file is run alone,
// its builds install pip themselves.
import { copyFileSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The variable in which the runner passes the location of pip to test files. */
export const pipSeedVariable = "SLIPWAY_TEST_PIP";

/** The Python version of that pip. Builds with another version install pip themselves. */
export const pipVersion = "3.11";

/**
 * Lets builds below the folder find the result of `makePipSeed`. Each gets its own pointers, so
 * that none removes it.
 */
export function givePip(buildsDir: string): void {
  const seed = process.env[pipSeedVariable] ?? "";
  const tools = toolsBelow(buildsDir);
  if (seed === "" || existsSync(tools)) return;
  mkdirSync(tools, { recursive: true });
  for (const name of readdirSync(seed).filter((one) => one.endsWith(".json"))) {
    copyFileSync(join(seed, name), join(tools, name));
  }
}

/** Where a builder keeps the packages that it copies into environments. */
export function toolsBelow(buildsDir: string): string {
  return join(buildsDir, "cache/tools");
}
