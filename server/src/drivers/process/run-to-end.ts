// Runs what prepares a replica's folder (cp, chown): programs of the machine that are given nothing foreign but names of files.
import { execFile } from "node:child_process";

/** Copying an app's files takes seconds at most; a storage that hangs must not hold up the start for good. */
const timeoutMs = 120_000;

/**
 * Rejects when the program fails, takes too long or is aborted. In any case it has ended by then, so that nobody writes
 * to what is removed next: `execFile` with a signal of its own rejects while the program still runs.
 */
export async function runToEnd(file: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const ended = Promise.withResolvers<void>();
  const child = execFile(file, args, { timeout: timeoutMs, killSignal: "SIGKILL" }, (error) => {
    if (error === null) ended.resolve();
    else ended.reject(error);
  });
  const onAbort = (): void => void child.kill("SIGKILL");
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await ended.promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
