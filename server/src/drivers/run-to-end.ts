// Runs programs of the machine that prepare or remove folders of apps (cp, chown, rm). Their only
// foreign input is file names.
import { addAbortListener } from "node:events";
import { execFile } from "node:child_process";

type Run = { readonly signal: AbortSignal; readonly timeoutMs?: number | undefined };

/**
 * Copying an app's files takes seconds at most; a hanging storage must not block the start forever.
 */
const timeoutMsDefault = 120_000;

/**
 * Rejects when the program fails, times out or is aborted. It has exited by then in any case, so
 * that it cannot write to what is removed next: `execFile` with its own signal rejects while the
 * program still runs.
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
