// Runs a short program of the machine to its end, to set up networks or to test the sandbox.
import { runCommand, type CommandOptions } from "#lib/command.ts";

const timeoutMs = 10_000;
/** The environment of the machine's own tools. */
export const toolsEnvironment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };

/**
 * Null when it exited with 0, else the first line of its output, or how it exited. `lines` receives
 * its output.
 */
export async function commandFailure(
  run: Pick<CommandOptions, "command" | "cwd" | "environment">,
  lines: string[] = [],
): Promise<string | null> {
  const { signal } = new AbortController();
  const end = await runCommand({
    ...run,
    signal,
    timeoutMs,
    onLine: (_stream, text) => lines.push(text),
  });
  if (end.kind === "exited" && end.exitCode === 0) return null;
  if (end.kind === "not_started") return end.reason;
  const said = lines.find((text) => text.trim() !== "");
  return said ?? `${run.command[0]} ${end.kind === "timeout" ? "did not end" : "failed"}`;
}
