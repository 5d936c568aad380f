// Runs a short program of the machine to its end: one that sets networks up, or that tries the sandbox.
import { runCommand, type CommandOptions } from "#lib/command.ts";

const timeoutMs = 10_000;

/** Null when it ended with 0, else the first line that it said, or how it ended. `lines` takes its output. */
export async function commandFailure(
  run: Pick<CommandOptions, "command" | "cwd" | "environment">,
  lines: string[] = [],
): Promise<string | null> {
  const end = await runCommand({
    ...run,
    signal: new AbortController().signal,
    timeoutMs,
    onLine: (_stream, text) => lines.push(text),
  });
  if (end.kind === "exited" && end.exitCode === 0) return null;
  if (end.kind === "not_started") return end.reason;
  const said = lines.find((text) => text.trim() !== "");
  return said ?? `${run.command[0]} ${end.kind === "timeout" ? "did not end" : "failed"}`;
}
