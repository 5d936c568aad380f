// Runs the tests of the Python runtime, which are processes of their own, beside those of node. What they print is printed
// when they have ended, so that it is not mixed with other lines.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

const script = "runtimes/python/tests/run.py";

/** How they ended; `output` is all that they printed. */
export type PythonOutcome = { readonly ok: boolean; readonly output: string };

/** `isComplete`: under every Python that is found, instead of the oldest or the newest; then one must be found. */
export async function runPythonTests(given: {
  readonly isComplete: boolean;
  readonly cwd: string;
  readonly signal: AbortSignal;
}): Promise<PythonOutcome> {
  const { isComplete, cwd, signal } = given;
  // What tests of node are told is no setting of an app's.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SLIPWAY_TEST_")));
  const parameters = [script, ...(isComplete ? [] : ["--end"])];
  try {
    const child = spawn("python3", parameters, { cwd, signal, env, stdio: ["ignore", "pipe", "inherit"] });
    const [output, [status]] = await Promise.all([
      text(child.stdout),
      once(child, "close") as Promise<[number | null]>,
    ]);
    const remedy = status === 0 ? "" : `✖ The tests of the Python runtime failed; to repeat them: python3 ${script}\n`;
    return { ok: status === 0, output: `Tests of the Python runtime:\n${output}${remedy}` };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const output = `The tests of the Python runtime are skipped: python3 cannot be run (${reason}).\n`;
    return { ok: !isComplete && !signal.aborted, output };
  }
}
