// Finds the line of a failed program's output that says why it failed. Pure.

/** How programs mark an error: compilers, pip, git, apt, conda, npm, Python's exceptions. */
const marked =
  /^\s*(?:(?:fatal|error|ERROR|E|npm ERR!|npm error)\b ?[:!]? ?\S|\S{0,200}: (?:fatal )?error: |[\w.]{0,100}(?:Error|Exception): |╰─▶ )/;
/** What pip and uv say after the reason, or instead of one. */
const empty =
  /^\s*(?:[×│╰]\S* )?(?:See above for output|\[end of output\]|\[\d+ lines of output\]|exit code: \d+$|.{0,200} did not run successfully)|subprocess-exited-with-error|legacy-install-failure|metadata-generation-failed|Failed building wheel|Failed to build|could not build wheels|ResolutionImpossible|^\s*(?:note|hint|warning|WARNING|\[notice\])\b/i;
const lengthMax = 2000;

/** The last line that is marked as an error, else the last that is not empty; "": there is none. */
export function failingLine(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  const filled = lines.filter((line) => !empty.test(line.slice(0, lengthMax)));
  const found =
    filled.findLast((line) => marked.test(line.slice(0, lengthMax))) ??
    filled.at(-1) ??
    lines.at(-1) ??
    "";
  return found.slice(0, lengthMax).trim();
}
