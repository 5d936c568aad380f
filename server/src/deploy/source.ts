// What fetches the files that a build is made from: an interface that `make-artifact.ts` uses.
// `sources/any-source.ts` implements it for repositories and uploads, `sources/git.ts` for
// repositories.
import type { SourceSettings } from "#apps/settings.ts";
import type { BuildLog } from "#drivers/builder.ts";
import type { AppId, BuildId, ProjectId } from "#lib/ids.ts";

export type SourceRequest = {
  readonly projectId: ProjectId;
  readonly buildId: BuildId;
  readonly settings: SourceSettings;
  /** The app whose last checkout it goes on from, and leaves its own to; null: it starts clean. */
  readonly checkoutOf: AppId | null;
  /**
   * False: `settings.gitBranch` is a default, so the repository's default branch is used where that
   * one is missing.
   */
  readonly isBranchGiven: boolean;
  /**
   * The commit of an earlier build or attempt, or the first digits of one; null selects the newest.
   */
  readonly commit: string | null;
  /** The upload with the files; null: they are in the repository. */
  readonly uploadId: string | null;
  /** What else to fetch, by the settings in the app's folder, once its files are there. */
  readonly fetchesOf: (appDir: string) => {
    readonly gitSubmodules: boolean;
    readonly gitLfs: boolean;
  };
  readonly log: BuildLog;
  readonly signal: AbortSignal;
};

/** The app's folder. The caller deletes it with `remove`. */
export type FetchedSource = {
  /** Null, with what is said of it: the files were uploaded. */
  readonly commit: string | null;
  readonly message: string | null;
  /** Name and address. */
  readonly author: string | null;
  /** Identifies the files: the commit, or a digest of what was uploaded. */
  readonly content: string;
  /** The branch whose newest commit it is, or the tag; null: the commit was given. */
  readonly branch: string | null;
  /** The repository's default branch, used since the branch in `settings` is missing; else null. */
  readonly defaultBranch: string | null;
  readonly appDir: string;
  /** What else of the repository, apart from `gitPath`, its files were taken from. */
  readonly sharedPaths: readonly string[];
};

/** What is stored of the words of a commit: at most `max` characters that the database takes. */
export function commitText(text: string, max: keyof typeof commitTextMax): string {
  return text.replaceAll("\0", "").slice(0, commitTextMax[max]).toWellFormed();
}

const commitTextMax = { message: 2000, author: 300 } as const;

/** Fetches sources into separate folders. */
export interface Source {
  /** Reports in the platform's log whether it can work here. */
  check(): Promise<void>;
  /**
   * Rejects with `BuildFailed` for every problem that the app's owner can fix, and then leaves
   * nothing behind.
   */
  fetch(request: SourceRequest): Promise<FetchedSource>;
  /** Deletes everything fetched for a build, including leftovers of a killed attempt. */
  remove(buildId: BuildId): Promise<void>;
  /**
   * Deletes what killed builds left before `readBuilding` is called, which names the unfinished
   * ones, and old checkouts; `readApps` names those apps that exist.
   */
  collect(
    readBuilding: () => Promise<readonly BuildId[]>,
    readApps: (appIds: readonly string[]) => Promise<readonly AppId[]>,
  ): Promise<void>;
}
