// Whether the Python package index can be reached; suites that need it skip with the reason
// otherwise.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeFolder, removeFolder } from "./folder.ts";

const run = promisify(execFile);
const query = ["-m", "pip", "index", "versions", "six"] as const;
const queryWaitMs = 30_000;

let answer: Promise<string | false> | undefined;

/**
 * False when packages can be installed, else the reason to skip. Checked once per test file, with
 * pip as configured here.
 */
export function packageIndexAnswers(): Promise<string | false> {
  answer ??= ask().then(
    () => false as const,
    (error: unknown) => `the Python package index does not answer: ${lastLine(error)}`,
  );
  return answer;
}

/**
 * Debian's python3 has no pip; builds use the pip of a virtual environment, and so does this
 * function then.
 */
async function ask(): Promise<void> {
  const hasPip = await run("python3", ["-m", "pip", "--version"]).then(
    () => true,
    () => false,
  );
  if (hasPip) return void (await run("python3", query, { timeout: queryWaitMs }));
  const folder = makeFolder("pip");
  try {
    await run("python3", ["-m", "venv", folder], { timeout: queryWaitMs });
    await run(join(folder, "bin/python"), query, { timeout: queryWaitMs });
  } finally {
    removeFolder(folder);
  }
}

/** Programs print errors to either stream. */
function lastLine(error: unknown): string {
  const { stderr = "", stdout = "" } = error as {
    readonly stderr?: string;
    readonly stdout?: string;
  };
  const complaint =
    [stderr, stdout, String(error)].map((text) => text.trim()).find((text) => text !== "") ?? "";
  return complaint.split("\n").at(-1) ?? "";
}
