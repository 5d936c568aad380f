// Runs a program of the machine that ends within seconds, to set up networks or to test the
// sandbox.
import { runCommand, type CommandOptions } from "#lib/command.ts";

const timeoutMs = 10_000;
/** The environment of the machine's own tools. */
export const toolsEnvironment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };

/**
 * Resolves with null when the program exits with 0, else with the first line of its output, or with
 * how it ended if it printed nothing. Its output is appended to `lines`.
 */
export async function commandFailure(
  run: Pick<CommandOptions, "command" | "cwd" | "environment">,
  lines: string[],
): Promise<string | null> {
  const end = await runCommand({
    ...run,
    // Only the timeout ends the program.
    signal: new AbortController().signal,
    timeoutMs,
    onLine: (_stream, text) => lines.push(text),
  });
  if (end.kind === "exited" && end.exitCode === 0) return null;
  if (end.kind === "not_started") return end.reason;
  const firstLine = lines.find((text) => text.trim() !== "");
  const problem = end.kind === "timeout" ? "did not end" : "failed";
  return firstLine ?? `${run.command[0]} ${problem}`;
}
