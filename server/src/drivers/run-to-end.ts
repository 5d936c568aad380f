// Runs programs of the machine that prepare or remove folders of apps (cp, chown, rm). Only the
// names of files come from apps.
import { addAbortListener } from "node:events";
import { execFile } from "node:child_process";

type Run = { readonly signal: AbortSignal; readonly timeoutMs?: number | undefined };

/**
 * Copying an app's files takes seconds, but a storage that hangs must not block a start forever.
 */
const timeoutMsDefault = 120_000;

/**
 * Runs a program; rejects when it fails, times out or is aborted. In every case the program has
 * exited by then, so that it cannot write to a folder that is removed next. (The signal option of
 * `execFile` would reject while the program still runs.)
 */
export async function runToEnd(
  file: string,
  args: readonly string[],
  { signal, timeoutMs = timeoutMsDefault }: Run,
): Promise<void> {
  signal.throwIfAborted();
  const ended = Promise.withResolvers<void>();
  const child = execFile(file, args, { timeout: timeoutMs, killSignal: "SIGKILL" }, (error) => {
    if (error === null) ended.resolve();
    else ended.reject(error);
  });
  using _kill = addAbortListener(signal, () => child.kill("SIGKILL"));
  await ended.promise;
}
