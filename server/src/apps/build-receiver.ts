// The interface through which this area adds and cancels builds. `deploy` implements it, and the
// platform connects the two, since this area may not import `deploy`.
import type { Actor } from "#audit/record.ts";
import type { AppId, AppKey, BuildId, ReleaseId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { ReleaseSettings } from "./settings.ts";

type Status = Tables["builds"]["status"];

/**
 * A new build of an app with its current settings. Without a commit and a branch, it builds the
 * newest commit of the app's branch.
 */
export type NewBuild = AppKey & {
  readonly cause: Tables["builds"]["cause"];
  readonly by: Actor;
  /** The id of a commit, or its first digits. */
  readonly commit?: string | undefined;
  /** A branch or a tag to build instead of the app's own branch; the app's setting stays. */
  readonly branch?: string | undefined;
  /** The id of the upload with the files, instead of a commit. */
  readonly upload?: string | undefined;
  /** The commit's message and author, when they are known before the commit is fetched. */
  readonly message?: string | undefined;
  readonly author?: string | undefined;
  /**
   * True for a push whose build also ends running builds of earlier pushes. Pending builds of
   * earlier pushes end in any case.
   */
  readonly isRunningSuperseded?: boolean | undefined;
};

/**
 * A new release with the artifact of another release and other settings. It belongs to a build that
 * builds nothing.
 */
export type NewSettings = AppKey & {
  readonly by: Actor;
  /** The release with the artifact: the one that is being rolled out, or else the live one. */
  readonly release: ReleaseId;
  readonly settings: ReleaseSettings;
};

/** A build whose files are still to be uploaded. */
export type NewUpload = AppKey & {
  readonly cause: "create" | "deploy";
  readonly by: Actor;
  /** The fields of the request, whose settings apply to this build. */
  readonly request: Readonly<Record<string, unknown>>;
  /** The TOML text of the request, whose settings apply too; null: none was sent. */
  readonly configToml: string | null;
  /** SHA-256 of the key in the address that the files are uploaded to. */
  readonly keyHash: Buffer;
};

export type ReceivedBuild = {
  readonly buildId: BuildId;
  /** The number of the build within its app. */
  readonly number: number;
  readonly status: Status;
};

/**
 * Adds and cancels builds within the caller's transaction; `deploy/receive.ts` and
 * `deploy/end-builds.ts` implement it.
 */
export interface BuildReceiver {
  /** Adds a build. */
  receiveBuild(tx: Tx, build: NewBuild): Promise<ReceivedBuild>;
  /**
   * Adds a build that begins when its files have arrived. Ends the app's builds that still wait for
   * their files.
   */
  receiveUpload(tx: Tx, upload: NewUpload): Promise<ReceivedBuild & { readonly uploadId: string }>;
  /**
   * Adds a release with the new settings and the artifact of `settings.release`, and a build that
   * tries and promotes the new release after the app's earlier builds.
   */
  receiveSettings(
    tx: Tx,
    settings: NewSettings,
  ): Promise<ReceivedBuild & { readonly releaseNumber: number }>;
  /** Repeats a build with its commit and its settings. */
  rebuild(tx: Tx, build: BuildRef & { readonly by: Actor }): Promise<ReceivedBuild>;
  /** Ends a pending build, or asks a running one to end; returns the status that it has then. */
  requestCancel(tx: Tx, build: BuildRef): Promise<{ readonly status: Status }>;
  /**
   * Ends unfinished builds of pushes; the caller holds the lock on the app's row. `reason` is a
   * sentence.
   */
  endPushes(
    tx: Tx,
    builds: {
      readonly appId: AppId;
      readonly reason: string;
      /** True to end running builds too, not only pending ones. */
      readonly isRunningSuperseded: boolean;
    },
  ): Promise<void>;
}

/** Identifies a build by project, app and build id. */
export type BuildRef = AppKey & { readonly buildId: BuildId };
