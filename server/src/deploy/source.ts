// The interface by which `make-artifact.ts` fetches the files of a build. `sources/any-source.ts`
// implements it for repositories and uploads, `sources/git.ts` for repositories alone.
import type { SourceSettings } from "#apps/settings.ts";
import type { BuildLog } from "#drivers/builder.ts";
import type { AppId, BuildId, ProjectId } from "#lib/ids.ts";

export type SourceRequest = {
  readonly projectId: ProjectId;
  readonly buildId: BuildId;
  readonly settings: SourceSettings;
  /** The app whose last checkout is reused, and then replaced by this one; null: starts clean. */
  readonly checkoutOf: AppId | null;
  /**
   * False: `settings.gitBranch` is only a default. If that branch is missing, the default branch of
   * the repository is fetched.
   */
  readonly isBranchGiven: boolean;
  /** The commit to fetch, or its first digits; null: the newest of the branch. */
  readonly commit: string | null;
  /** The upload with the files; null: they are in the repository. */
  readonly uploadId: string | null;
  /** Reads from the settings in the app's folder, once it is fetched, what else to fetch. */
  readonly fetchesOf: (appDir: string) => {
    readonly gitSubmodules: boolean;
    readonly gitLfs: boolean;
  };
  readonly log: BuildLog;
  readonly signal: AbortSignal;
};

/** The fetched files. The caller deletes them with `remove`. */
export type FetchedSource = {
  /** Null, like the message and the author, when the files were uploaded. */
  readonly commit: string | null;
  readonly message: string | null;
  /** The author's name and email address. */
  readonly author: string | null;
  /** Identifies the files: the commit, or a digest of the uploaded files. */
  readonly content: string;
  /** The branch or tag that led to the commit; null: the request named the commit itself. */
  readonly branch: string | null;
  /** The repository's default branch if it replaced the missing branch of `settings`; else null. */
  readonly defaultBranch: string | null;
  readonly appDir: string;
  /** Paths of the repository outside `gitPath` that the app's files come from too. */
  readonly sharedPaths: readonly string[];
};

/** A commit's message or author as stored: cut off, without characters that PostgreSQL refuses. */
export function commitText(text: string, kind: keyof typeof commitTextMax): string {
  return text.replaceAll("\0", "").slice(0, commitTextMax[kind]).toWellFormed();
}

/** The maximum number of characters of each kind of text. */
const commitTextMax = { message: 2000, author: 300 } as const;

/** Fetches sources into separate folders. */
export interface Source {
  /** Logs whether sources can be fetched on this machine. */
  check(): Promise<void>;
  /**
   * Rejects with `BuildFailed` for every problem that the app's owner can fix, and then leaves
   * nothing behind.
   */
  fetch(request: SourceRequest): Promise<FetchedSource>;
  /** Deletes everything fetched for a build, including leftovers of a killed attempt. */
  remove(buildId: BuildId): Promise<void>;
  /**
   * Deletes files that killed builds have left, and old checkouts. `readBuilding` returns the
   * unfinished builds; files of builds that begin later stay. `readApps` returns the existing apps.
   */
  collect(
    readBuilding: () => Promise<readonly BuildId[]>,
    readApps: (appIds: readonly string[]) => Promise<readonly AppId[]>,
  ): Promise<void>;
}
