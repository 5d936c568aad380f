// Whether the Python package index answers here; suites that need it skip with the reason otherwise.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

let answer: Promise<string | false> | undefined;

/** False when packages can be installed, else the reason for skipping. Asked once per test file, through pip as it is set up here. */
export function packageIndexAnswers(): Promise<string | false> {
  answer ??= promisify(execFile)("python3", ["-m", "pip", "index", "versions", "six"], { timeout: 30_000 }).then(
    () => false as const,
    (error: unknown) => {
      const complaint = String((error as { stderr?: string }).stderr ?? error).trim();
      return `the Python package index does not answer: ${complaint.split("\n").at(-1)}`;
    },
  );
  return answer;
}
