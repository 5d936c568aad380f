// Runs the tests of the Python runtime in separate processes, in parallel with node's tests. Their
// output is printed when they have ended, so that it is not interleaved with other lines.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

const script = "runtimes/python/tests/run.py";

/** The result; `output` is everything that they printed. */
export type PythonOutcome = { readonly ok: boolean; readonly output: string };

/**
 * With the oldest and the newest Python that are installed, or with `hasAll` every one.
 * `isComplete`: at least one is required.
 */
export async function runPythonTests(given: {
  readonly isComplete: boolean;
  readonly hasAll: boolean;
  readonly cwd: string;
  readonly signal: AbortSignal;
}): Promise<PythonOutcome> {
  const { isComplete, hasAll, cwd, signal } = given;
  // Variables for node's tests are not settings of an app.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("SLIPWAY_TEST_")),
  );
  const parameters = [script, ...(hasAll ? [] : ["--ends"])];
  try {
    const child = spawn("python3", parameters, {
      cwd,
      signal,
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [output, [status]] = await Promise.all([
      text(child.stdout),
      once(child, "close") as Promise<[number | null]>,
    ]);
    const remedy =
      status === 0
        ? ""
        : `✖ The tests of the Python runtime failed; to repeat them: python3 ${script}\n`;
    return { ok: status === 0, output: `Tests of the Python runtime:\n${output}${remedy}` };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const output = `The tests of the Python runtime are skipped: python3 cannot be run (${reason}).\n`;
    return { ok: !isComplete && !signal.aborted, output };
  }
}
