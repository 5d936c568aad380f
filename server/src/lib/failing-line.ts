// Finds the line of a failed program's output that says why it failed. Pure.

/** Matches lines that a program marks as an error: compilers, pip, git, apt, conda, npm, Python. */
const marked =
  /^\s*(?:(?:fatal|error|ERROR|E|npm ERR!|npm error)\b ?[:!]? ?\S|\S{0,200}: (?:fatal )?error: |[\w.]{0,100}(?:Error|Exception): |╰─▶ )/;
/** Matches lines of pip and uv that give no reason, but stand after one or in place of one. */
const noReason =
  /^\s*(?:[×│╰]\S* )?(?:See above for output|\[end of output\]|\[\d+ lines of output\]|exit code: \d+$|.{0,200} did not run successfully)|subprocess-exited-with-error|legacy-install-failure|metadata-generation-failed|Failed building wheel|Failed to build|could not build wheels|ResolutionImpossible|^\s*(?:note|hint|warning|WARNING|\[notice\])\b/i;
/** The part of a line that is searched and shown. */
const lengthMax = 2000;

/**
 * Returns the last line that is marked as an error, else the last line with a reason, else the last
 * line that is not blank, else "".
 */
export function failingLine(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  const reasons = lines.filter((line) => !noReason.test(line.slice(0, lengthMax)));
  const failing =
    reasons.findLast((line) => marked.test(line.slice(0, lengthMax))) ??
    reasons.at(-1) ??
    lines.at(-1) ??
    "";
  return failing.slice(0, lengthMax).trim();
}
