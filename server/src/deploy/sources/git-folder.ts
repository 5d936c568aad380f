// Prepares the folder that git works in, with files that git reads instead of the machine's
// configuration, and limits its size. Used by everything that runs git on a remote repository.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { GitCredential } from "#apps/credentials.ts";
import { folderBytes } from "#deploy/folder-size.ts";
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { GitRun } from "./git-command.ts";
import type { SourceUrl } from "./git-url.ts";

/** Finds a project's credential for private repositories on a host. */
export type FindCredential = (projectId: ProjectId, host: string) => Promise<GitCredential | null>;

/** A folder beside the folders of builds, with a file of known SSH host keys per project. */
export const knownHostsName = "known-hosts";
/** How often a folder is measured while git writes to it. */
const measureEveryMs = 200;

/**
 * Writes git's configuration, and the project's key for the host, into `gitDir`; returns how git
 * reaches the host.
 */
export async function prepareRemote(remote: {
  readonly url: SourceUrl;
  readonly gitDir: string;
  readonly sourcesDir: string;
  readonly projectId: ProjectId;
  readonly findCredential: FindCredential;
}): Promise<NonNullable<GitRun["remote"]>> {
  const { url, gitDir, projectId } = remote;
  const credential = url.host === "" ? null : await remote.findCredential(projectId, url.host);
  // Only the operator can allow file: addresses, so git may read such a repository whoever owns it.
  // For other addresses, git must not take a folder among the fetched files for a repository.
  const config =
    url.protocol === "file" ? "[safe]\n\tdirectory = *\n" : "[safe]\n\tbareRepository = explicit\n";
  await writeFile(join(gitDir, "global.config"), config);
  const knownHostsFile = join(remote.sourcesDir, knownHostsName, projectId);
  await mkdir(dirname(knownHostsFile), { recursive: true, mode: 0o700 });
  const keyFile = credential?.kind === "ssh_key" ? join(gitDir, "ssh-key") : null;
  if (credential !== null && keyFile !== null) {
    // ssh refuses a key that does not end with a newline.
    await writeFile(keyFile, `${credential.secret.reveal().trimEnd()}\n`, { mode: 0o600 });
  }
  return { url, credential, ssh: { keyFile, knownHostsFile } };
}

/**
 * Runs git, and measures the folders meanwhile. When one becomes larger than `bytesMax`, aborts the
 * run and resolves with `isTooLarge`.
 */
export async function whileMeasured<Result>(
  limits: { readonly folders: readonly string[]; readonly bytesMax: number; readonly clock: Clock },
  run: (tooLarge: AbortSignal) => Promise<Result>,
): Promise<
  { readonly isTooLarge: false; readonly result: Result } | { readonly isTooLarge: true }
> {
  const { folders, bytesMax, clock } = limits;
  const tooLarge = new AbortController();
  const done = new AbortController();
  const watch = async (): Promise<void> => {
    while (!done.signal.aborted) {
      const sizes = await Promise.all(folders.map((folder) => folderBytes(folder, bytesMax)));
      if (sizes.some((size) => size > bytesMax)) return tooLarge.abort(new Error("too large"));
      await clock.sleep(measureEveryMs, done.signal).catch(() => undefined);
    }
  };
  const watching = watch();
  try {
    return { isTooLarge: false, result: await run(tooLarge.signal) };
  } catch (error) {
    if (!tooLarge.signal.aborted) throw error;
    return { isTooLarge: true };
  } finally {
    done.abort();
    await watching;
  }
}
