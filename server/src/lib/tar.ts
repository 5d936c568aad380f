// Runs the program tar, for archives of an app's files and for backups, with options that the tar
// of GNU and that of macOS both have. No tar process is left behind.
import { spawn } from "node:child_process";
import { addAbortListener, once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { oneLine } from "./one-line.ts";

/** A running tar. Its disposal kills it. */
export type Tar = AsyncDisposable & {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when tar has succeeded; rejects with its message, or with the signal's reason. */
  readonly end: Promise<void>;
};

/**
 * How many blocks of 512 bytes tar reads or writes at once. With this many, large files take a
 * third less time than with the usual number, 20.
 */
const blocks = "128";
/** Enough for the first message of tar. */
const messageLengthMax = 300;

/** The exit status of tar when a file changed or vanished while it was packed. */
const changedFiles = 1;

/**
 * Starts tar, which runs until its end, its disposal, or the abort of `signal`. `mayChange`: a file
 * that changes or vanishes while it is packed is no error.
 */
export async function startTar(
  options: readonly string[],
  folder: string,
  signal: AbortSignal,
  { mayChange = false }: { readonly mayChange?: boolean } = {},
): Promise<Tar> {
  signal.throwIfAborted();
  // Turns off the operator's own options, the operator's language, and macOS's additional files.
  const environment = ["-u", "TAR_OPTIONS", "LC_ALL=C", "COPYFILE_DISABLE=1"];
  const child = spawn("env", [...environment, "tar", "-f", "-", "-b", blocks, ...options], {
    cwd: folder,
    // A signal of the terminal reaches only the platform, which then ends tar.
    detached: true,
  });
  await once(child, "spawn");
  const kill = (): void => void child.kill("SIGKILL");
  const abortListener = addAbortListener(signal, kill);
  // A write fails when tar has ended early; `end` then says why, which the error here does not.
  child.stdin.on("error", () => undefined);
  let message = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    message = `${message}${text}`.slice(0, messageLengthMax);
  });
  const end = once(child, "close").then(([code, killedBy]) => {
    abortListener[Symbol.dispose]();
    signal.throwIfAborted();
    if (code === 0 || (mayChange && code === changedFiles)) return;
    const exit = code === null ? `ended by ${killedBy}` : `exit code ${code}`;
    throw new Error(oneLine(message.trim()) || `tar: ${exit}`);
  });
  // A caller that stops early does not await the end.
  end.catch(() => undefined);
  return {
    input: child.stdin,
    output: child.stdout,
    end,
    async [Symbol.asyncDispose]() {
      kill();
      child.stdout.destroy();
      await end.catch(() => undefined);
    },
  };
}

/** Writes the chunk to tar. Resolves with false when tar has ended; `end` of `Tar` says why. */
export async function isWritten(input: Writable, chunk: Buffer): Promise<boolean> {
  return await new Promise((resolve) => input.write(chunk, (error) => resolve(!error)));
}
