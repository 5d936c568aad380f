// Runs test files with node's own runner and holds back its closing lines (the counts), so that they are the last thing
// printed, after the details of failed tests and whatever is checked in between.
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

/** How many files run at a time: most of them wait for processes and the database more than they compute. */
const filesAtOnce = 3;
/** A test that takes longer hangs. */
const testWaitMs = 300_000;

/** How a run ended. */
export type Outcome = {
  readonly ok: boolean;
  /** What failed and how, as node prints it; empty when all is well. */
  readonly failures: readonly string[];
  /** How many tests there were, passed, failed. */
  readonly closingLines: readonly string[];
};

/** Runs the files; `options` are passed to node. Prints everything but the closing lines as it comes. */
export function runNodeTests(run: {
  readonly files: readonly string[];
  readonly options: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly onStart: (child: ChildProcess) => void;
}): Promise<Outcome> {
  const settings = [`--test-concurrency=${filesAtOnce}`, `--test-timeout=${testWaitMs}`, "--test-reporter=spec"];
  const child = spawn(process.execPath, ["--test", ...settings, ...run.options, ...run.files], {
    cwd: run.cwd,
    env: { ...run.environment, ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  run.onStart(child);
  const held: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (held.length > 0 || isCount(line)) held.push(line);
    else process.stdout.write(`${line}\n`);
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) => {
      const failures = held.filter((line) => !isCount(line));
      resolve({ ok: status === 0, failures, closingLines: held.filter(isCount) });
    });
  });
}

/** `ℹ tests 12`, also in colour. Tests print nothing of this form at the start of a line before the run is over. */
function isCount(line: string): boolean {
  return /^(\u001b\[\d+m)*ℹ (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) \d/.test(line);
}
