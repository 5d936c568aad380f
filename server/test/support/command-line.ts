// Runs commands of the command line: in this process against a platform, which is fast, or as a process of its own, for signals and
// pipes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { dispatch } from "@slipway/cli/src/dispatch.ts";
import type { WithAfter } from "./clean-last.ts";
import { temporaryFolder } from "./folder.ts";
import type { Json } from "./management-api.ts";

const main = join(import.meta.dirname, "../../../cli/src/main.ts");

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
    let [stdout, stderr] = ["", ""];
    const decoder = new TextDecoder();
    const code = await dispatch(words, {
      ...{ environment: { ...own, ...environment }, homeFolder: home, isInteractive: false, columns },
      ...{ version: "0.0.0", system: "test" },
      print: (text) => (stdout += `${text}\n`),
      write: (part) => (stdout += typeof part === "string" ? part : decoder.decode(part, { stream: true })),
      tell: (text) => (stderr += `${text}\n`),
      paint: (_paint, text) => text,
      endOnInterrupt: () => undefined,
    });
    return { code, stdout, stderr, json: () => JSON.parse(stdout) as Json };
  };
}

export type StartedCommand = {
  stdout(): string;
  stderr(): string;
  /** The exit code; null: a signal ended it. */
  readonly ended: Promise<number | null>;
  /** As Ctrl-C does. */
  interrupt(): void;
  /** Ends standard input with this text. */
  type(text: string): void;
  /** Nobody reads its output any more. */
  closeOutput(): void;
};

/** A command as a process of its own, which ends with the test. */
export function startCommand(
  t: WithAfter,
  { baseUrl, token, projectId }: Target,
  words: readonly string[],
): StartedCommand {
  const env = { PATH: process.env["PATH"], HOME: temporaryFolder(t, "home"), SLIPWAY_URL: baseUrl };
  const child = spawn(process.execPath, [main, ...words], {
    env: { ...env, SLIPWAY_TOKEN: token, SLIPWAY_PROJECT: projectId },
    stdio: "pipe",
  });
  t.after(() => void child.kill("SIGKILL"));
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    ended: once(child, "close").then(([code]) => code as number | null),
    interrupt: () => void child.kill("SIGINT"),
    type: (text) => void child.stdin.end(text),
    closeOutput: () => void child.stdout.destroy(),
  };
}
