// Runs the command line as a process with a home folder of its own, for tests of what people type.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { temporaryFolder } from "./folder.ts";
import type { WithAfter } from "./clean-last.ts";

const main = join(import.meta.dirname, "../../../cli/src/main.ts");

export type CommandEnd = {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

/** A command that runs. */
export type RunningCommand = {
  stdout(): string;
  stderr(): string;
  readonly ended: Promise<CommandEnd>;
  /** As Ctrl-C. */
  interrupt(): void;
  /** Ends standard input with this text. */
  type(text: string): void;
  /** Nobody reads its output any more. */
  closeOutput(): void;
};

export type CommandOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** For standard input; null: it stays open until `type`. */
  readonly input?: string | null;
  /** The program and its first arguments; by default the command line of this project. */
  readonly program?: readonly string[];
};

/** Starts commands in one home folder; what still runs at the end of the test is ended. */
export function commandsAt(t: WithAfter, shared: CommandOptions = {}) {
  const home = temporaryFolder(t, "home");
  return (words: readonly string[], own: CommandOptions = {}): RunningCommand => {
    const { env, cwd, input = "", program = [process.execPath, main] } = { ...shared, ...own };
    const [file = "", ...first] = program;
    const child = spawn(file, [...first, ...words], {
      cwd,
      env: { PATH: process.env["PATH"], HOME: home, ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
    child.stdin.on("error", () => undefined);
    if (input !== null) child.stdin.end(input);
    const ended = once(child, "close").then(([code]) => ({
      code: code as number | null,
      stdout,
      stderr,
    }));
    t.after(async () => {
      // What it has started ends with it.
      child.kill("SIGTERM");
      await ended;
    });
    return {
      stdout: () => stdout,
      stderr: () => stderr,
      ended,
      interrupt: () => void child.kill("SIGINT"),
      type: (text) => void child.stdin.end(text),
      closeOutput: () => void child.stdout.destroy(),
    };
  };
}
