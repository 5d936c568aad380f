// What brings the files that a build is made from: called by the queue and by `build.ts`. `sources/git.ts` implements it.
import type { SourceSettings } from "#apps/settings.ts";
import type { BuildLog } from "#drivers/builder.ts";
import type { BuildId, ProjectId } from "#lib/ids.ts";

export type SourceRequest = {
  readonly projectId: ProjectId;
  readonly buildId: BuildId;
  readonly settings: SourceSettings;
  /** The commit of an earlier build or try; null takes the newest. */
  readonly commit: string | null;
  readonly log: BuildLog;
  readonly signal: AbortSignal;
};

/** The app's folder as the commit has it. The caller drops it with `remove`. */
export type FetchedSource = { readonly commit: string; readonly appDir: string };

/** Fetches sources into folders of their own. */
export interface Source {
  /** Says in the platform's log whether it can work here. */
  check(): Promise<void>;
  /** Rejects with `BuildFailed` for all that the app's owner can mend; leaves nothing behind then. */
  fetch(request: SourceRequest): Promise<FetchedSource>;
  /** Drops all that was fetched for a build; also what an earlier, killed try left. */
  remove(buildId: BuildId): Promise<void>;
  /** Drops what killed builds left; `building` are those that are not finished. */
  collect(building: readonly BuildId[]): Promise<void>;
}
