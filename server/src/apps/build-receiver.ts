// The interface to `deploy`, which this area may not import: adding and cancelling builds. The platform connects the two.
import type { AppId, BuildId, ProjectId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { BuildsTable } from "#store/tables.ts";

type Status = BuildsTable["status"];

/** A new build. `request` is the app's request body without dockerAuth. */
export type NewBuild = {
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly cause: BuildsTable["cause"];
  readonly request: Readonly<Record<string, unknown>>;
  readonly configToml: string | null;
};

export type ReceivedBuild = { readonly buildId: BuildId; readonly number: number; readonly status: Status };

/** Adds and cancels builds within the caller's transaction; `deploy/receive.ts` implements it. */
export interface BuildReceiver {
  receiveBuild(tx: Tx, build: NewBuild): Promise<ReceivedBuild>;
  rebuild(tx: Tx, build: BuildRef): Promise<ReceivedBuild>;
  requestCancel(tx: Tx, build: BuildRef): Promise<{ readonly status: Status }>;
}

/** Identifies a build by project, app and build id. */
export type BuildRef = { readonly projectId: ProjectId; readonly appId: AppId; readonly buildId: BuildId };
