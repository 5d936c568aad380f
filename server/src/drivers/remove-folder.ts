// Removes folders that programs of apps wrote to. Folders in them that are closed even to their
// owner, and paths longer than the system accepts, are removed too.
import { rm } from "node:fs/promises";
import { errorCode } from "#lib/error-code.ts";
import { runToEnd } from "./run-to-end.ts";

type Removal = {
  readonly signal: AbortSignal;
  /**
   * As in `Sandbox`: apps run as a user of a user namespace, so folders are removed in a namespace
   * in which no folder is closed.
   */
  readonly isUserOwned?: boolean;
  /** When to give up; files that were deleted by then stay deleted. */
  readonly timeoutMs?: number;
};

/** Errors of node's `rm` after which the machine's own programs may still remove the folder. */
const handledCodes = ["EACCES", "EPERM", "ENOTEMPTY", "ENAMETOOLONG", "ELOOP"];

/** Removes the folder, if it exists. The programs that wrote to it must have ended. */
export async function removeFolder(dir: string): Promise<void> {
  try {
    await rm(dir, { recursive: true, force: true });
  } catch (error) {
    if (!handledCodes.includes(errorCode(error))) throw error;
    // Nothing aborts this signal.
    await removeTree(dir, { signal: new AbortController().signal });
  }
}

/**
 * Removes the folder, even if programs still write to it; rejects when files remain. Never leaves
 * the file system of the folder, and follows no link.
 */
export async function removeTree(
  dir: string,
  { signal, isUserOwned = false, timeoutMs }: Removal,
): Promise<void> {
  const inNamespace = isUserOwned ? ["unshare", "--user", "--map-root-user"] : [];
  const run = async (...command: readonly [string, ...string[]]): Promise<void> => {
    const [program, ...rest] = [...inNamespace, ...command, "--", dir];
    await runToEnd(program, rest, { signal, timeoutMs });
  };
  const remove = (): Promise<void> => run("rm", "-rf", "--one-file-system");
  try {
    await remove();
  } catch (error) {
    if (signal.aborted || isUserOwned || process.getuid?.() === 0) throw error;
    // Without a namespace, apps run as the platform's own user, who can open the closed folders.
    await run("chmod", "-R", "u+rwX").catch(() => undefined);
    await remove();
  }
}
