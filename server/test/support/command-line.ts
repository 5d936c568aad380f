// Runs commands of the command line: in this process against a platform, which is fast, or as a
// process of its own, for signals and pipes.
import { dispatch } from "@slipway/cli/src/dispatch.ts";
import type { WithAfter } from "./clean-last.ts";
import { temporaryFolder } from "./folder.ts";
import type { Json } from "./management-api.ts";
import { commandsAt, type RunningCommand } from "./slipway-command.ts";

export type Ended = {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The standard output as JSON. */
  json(): Json;
};

/** What differs from a script without a terminal. */
export type Shell = {
  readonly environment?: Readonly<Record<string, string>>;
  /** The width of the terminal; null: there is none. */
  readonly columns?: number | null;
  /** Where the sign-in is; an empty folder by default. */
  readonly home?: string;
};

/** Runs `slipway` with these words. */
export type CommandLine = (words: readonly string[], shell?: Shell) => Promise<Ended>;

type Target = { readonly baseUrl: string; readonly token: string; readonly projectId: string };

/** Commands that run in this process, as the target's service account. */
export function commandLine(t: WithAfter, { baseUrl, token, projectId }: Target): CommandLine {
  const homeFolder = temporaryFolder(t, "home");
  const own = { SLIPWAY_URL: baseUrl, SLIPWAY_TOKEN: token, SLIPWAY_PROJECT: projectId };
  return async (words, { environment = {}, columns = null, home = homeFolder } = {}) => {
    let stdout = "";
    let stderr = "";
    const decoder = new TextDecoder();
    const code = await dispatch(words, {
      environment: { ...own, ...environment },
      homeFolder: home,
      isInteractive: false,
      columns,
      version: "0.0.0",
      system: "test",
      print: (text) => (stdout += `${text}\n`),
      write: (part) =>
        (stdout += typeof part === "string" ? part : decoder.decode(part, { stream: true })),
      tell: (text) => (stderr += `${text}\n`),
      paint: (_paint, text) => text,
      endOnInterrupt: () => undefined,
    });
    return { code, stdout, stderr, json: () => JSON.parse(stdout) as Json };
  };
}

/** A command as a process of its own, which ends with the test. */
export function startCommand(
  t: WithAfter,
  { baseUrl, token, projectId }: Target,
  words: readonly string[],
): RunningCommand {
  const env = { SLIPWAY_URL: baseUrl, SLIPWAY_TOKEN: token, SLIPWAY_PROJECT: projectId };
  return commandsAt(t, { env, input: null })(words);
}
