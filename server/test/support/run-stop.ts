// Runs `npm run stop` for tests, as its own process, and says what it printed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const program = join(import.meta.dirname, "../../../tools/stop.ts");

/** On the data folder; `settings` are SLIPWAY_… variables. */
export async function runStop(
  dataDir: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<{ code: number | null; output: string; errors: string }> {
  const environment = { PATH: process.env["PATH"], SLIPWAY_DATA_DIR: dataDir, ...settings };
  const child = spawn(process.execPath, [program], {
    env: environment,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = (await once(child, "close", { signal: AbortSignal.timeout(120_000) })) as [
    number | null,
  ];
  return { code, output, errors };
}
