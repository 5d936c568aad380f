// The start of an app's Python without the platform, which starts of replicas are compared with.
import { globSync } from "node:fs";
import { join } from "node:path";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { runProgram } from "./child.ts";

/** What the runtime imports. */
const program = "import asyncio, json";

/** How the tables name it. */
export const pythonAloneText = `\`python3 -c "${program}"\``;

/**
 * Returns a function that starts the Python of the platform's apps and waits for its end: the
 * machine's own may import more at its start.
 */
export function pythonAlone(platform: PlatformProcess): () => Promise<unknown> {
  const environments = join(platform.dataDir, "builds/cache/environments");
  const [python] = globSync(join(environments, "*/bin/python"));
  if (python === undefined) throw new Error(`${environments} has no environment of an app`);
  return () => runProgram([python, "-c", program]);
}
