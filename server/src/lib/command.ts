// Runs a program (git, pip, a command of a build) in its own process group, with a time limit, and
// hands out its output as lines. No process is left behind: the group is killed when the program
// ends, on cancellation, at the timeout, and when the platform itself dies.
import { spawn, type ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import { systemClock, type Clock } from "./clock.ts";
import { CommandOutput, type OutputName } from "./command-output.ts";

export type CommandOptions = {
  /** The program and its arguments; no shell reads them. */
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** The whole environment: the program inherits nothing. */
  readonly environment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /**
   * Takes each line of output without its newline; long lines are cut. A carriage return also ends
   * a line (progress bars).
   */
  readonly onLine?: (stream: OutputName, text: string) => void;
  /** Only a newline ends a line: for programs whose lines hold what other programs print. */
  readonly keepsReturns?: boolean;
  /** Takes raw chunks of standard output instead of lines; returning false ends the program. */
  readonly onOutput?: (chunk: Buffer) => boolean;
  readonly clock?: Clock;
};

/**
 * How the program ended. `exited`: by itself, with its exit code (128 + n after signal n).
 * `cut_off`: `onOutput` has returned false.
 */
export type CommandEnd =
  | { readonly kind: "exited"; readonly exitCode: number }
  | { readonly kind: "timeout" | "aborted" | "cut_off" }
  | { readonly kind: "not_started"; readonly reason: string };

/** How long to wait for more output after the whole group was killed. */
const closeWaitMs = 2000;

/**
 * A shell script that runs the program given as its arguments. It kills the whole process group
 * when the pipe to the platform breaks, as it does when the platform is killed: descriptor 3 is
 * that pipe, into which nothing is ever written, so `read` returns only when the pipe breaks. The
 * program inherits the script's `oom_score_adj`, so that the kernel kills the program before the
 * platform when memory runs out.
 */
const guard = `exec 3<&0
{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null
"$@" </dev/null 3<&- &
program=$!
{ read -r never <&3; kill -KILL 0; } >/dev/null 2>&1 &
wait "$program"
`;

/**
 * Runs the program to its end; never rejects. An abort or a timeout kills its whole group at once.
 */
export function runCommand(options: CommandOptions): Promise<CommandEnd> {
  if (options.signal.aborted) return Promise.resolve({ kind: "aborted" });
  const clock = options.clock ?? systemClock;
  const child = spawn("/bin/sh", ["-c", guard, "sh", ...options.command], {
    cwd: options.cwd,
    env: options.environment,
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  return new Promise((resolve) => {
    // The first cause counts: after an abort or a timeout the program is killed, and exits too.
    let end: CommandEnd | undefined;
    const finish = (cause: CommandEnd): void => {
      end ??= cause;
      if (end.kind !== "exited") output.stop();
      killGroup(child);
    };
    const onAbort = (): void => finish({ kind: "aborted" });
    options.signal.addEventListener("abort", onAbort, { once: true });
    const cancelTimeout = clock.after(options.timeoutMs, () => finish({ kind: "timeout" }));
    let cancelClose: (() => void) | undefined;
    const output = readOutput(child, { ...options, clock }, () => finish({ kind: "cut_off" }));
    // The pipe that the guard waits on breaks when the group is killed; that is expected.
    child.stdin?.on("error", () => undefined);
    child.on("error", (error) => {
      end ??= { kind: "not_started", reason: error.message };
      settle();
    });
    child.on("exit", (code, signal) => {
      // A shell without an exit code was killed by a signal: 137 stands for SIGKILL.
      const codeOfKill = signal === null ? 1 : 137;
      finish({ kind: "exited", exitCode: code ?? codeOfKill });
      cancelClose = clock.after(closeWaitMs, () => {
        child.stdout?.destroy();
        child.stderr?.destroy();
      });
    });
    child.on("close", settle);
    function settle(): void {
      options.signal.removeEventListener("abort", onAbort);
      cancelTimeout();
      cancelClose?.();
      // By now there is an end, since `exit` or `error` came first.
      void output.finish().then(() => resolve(end ?? { kind: "aborted" }));
    }
  });
}

/** Kills every process of the child's group; the group may already be gone. */
function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Hands out the output as lines, or standard output as raw chunks if `onOutput` is set. */
function readOutput(
  child: ChildProcess,
  {
    onLine = () => undefined,
    onOutput,
    keepsReturns = false,
    clock,
  }: CommandOptions & { readonly clock: Clock },
  cutOff: () => void,
): CommandOutput {
  const sources: [OutputName, Readable][] = [];
  if (child.stderr !== null) sources.push(["stderr", child.stderr]);
  if (child.stdout !== null && onOutput === undefined) sources.push(["stdout", child.stdout]);
  if (onOutput !== undefined) {
    child.stdout?.on("data", (chunk: Buffer) => {
      if (!onOutput(chunk)) cutOff();
    });
  }
  return new CommandOutput({ sources, onLine, keepsReturns, clock });
}
