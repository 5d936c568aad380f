// Removes folders that programs of apps wrote to. They may hold folders that are closed even to
// their owner, and paths longer than the system takes, neither of which may keep them there.
import { rm } from "node:fs/promises";
import { errorCode } from "#lib/error-code.ts";
import { runToEnd } from "./run-to-end.ts";

type Removal = {
  readonly signal: AbortSignal;
  /**
   * As in `Sandbox`: apps are a user of this namespace, where their folders are closed to nobody.
   */
  readonly isUserOwned?: boolean;
  /** What is deleted until then stays deleted. */
  readonly timeoutMs?: number;
};

const handledCodes = ["EACCES", "EPERM", "ENOTEMPTY", "ENAMETOOLONG", "ELOOP"];

/** Removes the folder of programs that have ended, if it is there. */
export async function removeFolder(dir: string): Promise<void> {
  try {
    await rm(dir, { recursive: true, force: true });
  } catch (error) {
    if (!handledCodes.includes(errorCode(error))) throw error;
    await removeTree(dir, { signal: new AbortController().signal });
  }
}

/**
 * Removes the folder while programs may still write in it; rejects when something is left. Never
 * leaves the file system of the folder, and follows no link.
 */
export async function removeTree(
  dir: string,
  { signal, isUserOwned = false, timeoutMs }: Removal,
): Promise<void> {
  const inNamespace = isUserOwned ? ["unshare", "--user", "--map-root-user"] : [];
  const run = async (...command: readonly [string, ...string[]]): Promise<void> => {
    const [file, ...args] = [...inNamespace, ...command, "--", dir];
    await runToEnd(file, args, { signal, timeoutMs });
  };
  const remove = (): Promise<void> => run("rm", "-rf", "--one-file-system");
  try {
    await remove();
  } catch (error) {
    if (signal.aborted || isUserOwned || process.getuid?.() === 0) throw error;
    // Without a namespace, apps run as the platform's own user.
    await run("chmod", "-R", "u+rwX").catch(() => undefined);
    await remove();
  }
}
